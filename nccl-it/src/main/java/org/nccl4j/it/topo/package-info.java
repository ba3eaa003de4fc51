/**
 * The {@code topo} part of the command line: shows what the topology module makes of a machine.
 * Layer: on top of everything; prints, decides nothing.
 */
package org.nccl4j.it.topo;
