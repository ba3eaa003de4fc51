/** Multicast objects of the host device: shared memory that every member maps. */
package org.nccl4j.device.host.multicast;
