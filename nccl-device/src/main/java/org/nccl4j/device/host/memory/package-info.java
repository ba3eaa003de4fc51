/** The host device's memory: any range of addresses, of any size, in terms of byte buffers. */
package org.nccl4j.device.host.memory;
