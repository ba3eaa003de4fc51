/**
 * The CUDA kernels as an artifact, for programs that use GPUs: nccl-device has their sources and
 * builds them, and this artifact carries them. {@code KernelFiles} of nccl-device finds them.
 *
 * <p>Layer: beside the engine; it requires nccl-device alone, and nothing requires it.
 */
package org.nccl4j.kernels;
