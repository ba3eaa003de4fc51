package org.nccl4j.device.kernel;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.operation.Protocol;

/**
 * One end's view of a connection: both regions, reachable by loads and stores of this end's device.
 *
 * @param data the data side, which lies with the receiver; at least {@link
 *     ConnectionLayout#dataBytes()} bytes, zero when new, aligned to 256 bytes
 * @param credit the credit side, which lies with the sender; {@link ConnectionLayout#CREDIT_BYTES}
 *     bytes, zero when new, aligned to 256 bytes
 * @param carried of a GPU's connection over a network, how many channels a proxy carries to the
 *     other end: the first ones, in Simple; 0 where all channels and protocols can be used
 * @param lines whether the proxy carries those channels in LL too
 */
public record Connection(DeviceMemory data, DeviceMemory credit, int carried, boolean lines) {
  /** A connection whose channels can all be used. */
  public Connection(DeviceMemory data, DeviceMemory credit) {
    this(data, credit, 0, /* lines= */ true);
  }

  /** True if a protocol's slots can be used. */
  public boolean has(Protocol protocol) {
    return carried == 0 || protocol == Protocol.SIMPLE || lines && protocol == Protocol.LL;
  }

  /** Channels that can be used. */
  public int channels() {
    return carried == 0 ? ConnectionLayout.CHANNELS : carried;
  }
}
