/**
 * The host device's memory that several ranks map: exportable memory, flat ranges, and multicast
 * objects of shared segments. Layer: above {@code host.memory} and {@code shm}; implements the
 * contract of {@code symmetric}, and of {@code kernel} for multicast objects.
 */
package org.nccl4j.device.host.symmetric;
