/**
 * Measures algorithms while a communicator is created on GPUs without measured times, and keeps the
 * times for the next one. Layer: part of the creation, above the planner and the launcher, of which
 * it uses one rank's. All ranks measure the same cells in the same order ({@link
 * org.nccl4j.api.init.probe.Probe}), so that all of them get the same table.
 */
package org.nccl4j.api.init.probe;
