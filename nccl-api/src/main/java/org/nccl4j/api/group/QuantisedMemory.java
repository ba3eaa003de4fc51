package org.nccl4j.api.group;

import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;

/**
 * The two memories between the steps of a rank's quantised sums, whatever their options: the
 * communicator orders the launches of all of them. They grow to the largest call. Owner: the thread
 * that is in the launcher; {@code bytes} by any.
 */
public final class QuantisedMemory {
  private final StepMemory out;
  private final StepMemory in;

  /** Without memory before the first call. */
  public QuantisedMemory(Device device) {
    this.out = new StepMemory(device);
    this.in = new StepMemory(device);
  }

  /** Returns memory for parts that this rank has quantised, and at the end for those of the sum. */
  DeviceMemory out(long bytes) {
    return out.of(bytes, /* capturing= */ false);
  }

  /**
   * Returns memory for what other ranks send: copies of this rank's part, or of its share's
   * elements.
   */
  DeviceMemory in(long bytes) {
    return in.of(bytes, /* capturing= */ false);
  }

  /** Notes that a graph uses both. */
  @HotPath
  void capture() {
    out.capture();
    in.capture();
  }

  /** Returns another number once memory that was returned before is no longer the current one. */
  @HotPath
  int changes() {
    return out.changes() + in.changes();
  }

  /** Frees both, once what was launched with them has ended. Later calls make them anew. */
  void close() {
    out.close();
    in.close();
  }

  /** Returns the bytes of both. */
  long bytes() {
    return out.bytes() + in.bytes();
  }
}
