/**
 * Simulates a communicator of any size without the machines: its rings and trees. Layer: above
 * {@code cluster}.
 */
package org.nccl4j.topo.simulate;
