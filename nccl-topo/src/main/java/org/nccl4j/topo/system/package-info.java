/**
 * The machine as a graph of devices and links, built from a topology file. Immutable once built.
 * Layer: above {@code xml}; {@code path} and all that follows look at it and never change it.
 */
package org.nccl4j.topo.system;
