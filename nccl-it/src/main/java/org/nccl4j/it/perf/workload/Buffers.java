package org.nccl4j.it.perf.workload;

import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;

/**
 * The memory that one operation works on.
 *
 * @param send the send buffer; in place a part of recv, or the same
 * @param recv the receive buffer; in place a part of send, or the same
 * @param type of the elements of both
 */
public record Buffers(DeviceMemory send, DeviceMemory recv, DataType type) {
  /** A part of the send buffer, in elements. */
  public DeviceMemory sendPart(long from, long count) {
    return send.slice(from * type.bytes(), count * type.bytes());
  }

  /** A part of the receive buffer, in elements. */
  public DeviceMemory recvPart(long from, long count) {
    return recv.slice(from * type.bytes(), count * type.bytes());
  }
}
