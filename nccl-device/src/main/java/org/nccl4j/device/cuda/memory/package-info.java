/**
 * Memory of GPUs: allocations, memory that other GPUs and processes map, flat ranges of addresses
 * for windows, pinned memory of the host, memory for network cards, and multicast objects.
 *
 * <p>Layer: above {@code cuda.driver}; knows neither streams nor plans. Exported to this library's
 * transports, which share memory with it.
 */
package org.nccl4j.device.cuda.memory;
