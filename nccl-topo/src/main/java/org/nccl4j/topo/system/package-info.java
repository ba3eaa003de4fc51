/**
 * The machine as a graph of devices and links, built from a topology file. Immutable once built.
 * Layer: above {@code xml}; {@code path} and the packages above only read it.
 */
package org.nccl4j.topo.system;
