/**
 * The host device's kernels: the same algorithms and primitives as on CUDA, on off-heap memory, one
 * thread a rank. A file for each algorithm of each collective; {@link
 * org.nccl4j.device.host.kernel.Kernels} has the table.
 *
 * <p>A kernel is written against {@link org.nccl4j.device.host.kernel.Primitives}, which moves one
 * chunk from and to some peers by one protocol. All ranks derive the same sequence of chunks from
 * the work alone, so that the steps of a connection match without any message about them. A chunk
 * of no bytes is no step.
 */
package org.nccl4j.device.host.kernel;
