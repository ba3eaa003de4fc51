/**
 * Emulated multicast memory (NVLS) of the host device, as kernels use it. Layer: above {@code
 * protocol} and {@code window}, below {@code algorithm}.
 */
package org.nccl4j.device.host.kernel.nvls;
