/**
 * Multicast objects of the host device: shared memory that every member maps. Layer: above {@code
 * shm}; implements the contract of {@code kernel}.
 */
package org.nccl4j.device.host.multicast;
