package org.nccl4j.device.kernel;

import org.nccl4j.device.DeviceMemory;

/**
 * One end's view of a connection: both regions, reachable by loads and stores of this end's device.
 *
 * @param data the data side, which lies with the receiver; at least {@link
 *     ConnectionLayout#dataBytes()} bytes, zero when new, aligned to 256 bytes
 * @param credit the credit side, which lies with the sender; {@link ConnectionLayout#CREDIT_BYTES}
 *     bytes, zero when new, aligned to 256 bytes
 */
public record Connection(DeviceMemory data, DeviceMemory credit) {}
