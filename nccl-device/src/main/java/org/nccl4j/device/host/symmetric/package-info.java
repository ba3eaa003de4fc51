/**
 * The host device's exportable memory and its flat ranges: shared segments, mapped many times.
 * Layer: above {@code host.memory} and {@code shm}; implements the contract of {@code symmetric}.
 */
package org.nccl4j.device.host.symmetric;
