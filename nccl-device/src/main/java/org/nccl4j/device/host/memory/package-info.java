/**
 * The host device's memory: any range of addresses, of any size, in terms of byte buffers. Layer:
 * lowest of the {@code host} packages; above {@code bind}.
 */
package org.nccl4j.device.host.memory;
