/**
 * Kernels of the host device over emulated multicast memory (NVLS).
 *
 * <p>Above the rooms {@code protocol} and {@code window}.
 */
package org.nccl4j.device.host.kernel.nvls;
