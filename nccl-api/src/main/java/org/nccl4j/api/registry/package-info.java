/**
 * Finds the transports, networks, tuners and profilers with {@link java.util.ServiceLoader}. Layer:
 * engine, above the SPI. The engine loads no providers elsewhere; the CUDA device loads its kernels
 * ({@code KernelFiles}) and one hook of its own.
 */
package org.nccl4j.api.registry;
