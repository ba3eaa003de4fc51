/**
 * Collective algorithms and sends and receives of the host device over connections, a file each.
 * {@link org.nccl4j.device.host.kernel.algorithm.HostAlgorithm} finds an algorithm's kernels.
 * Layer: above {@code protocol}, with whose primitives they are written, and above {@code nvls};
 * below {@code host.kernel}.
 */
package org.nccl4j.device.host.kernel.algorithm;
