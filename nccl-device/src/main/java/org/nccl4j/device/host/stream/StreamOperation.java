package org.nccl4j.device.host.stream;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.memory.HostMemory;

/** Something that a stream runs. One object may be in a queue many times. */
public interface StreamOperation {
  /**
   * Runs to the end, on whatever thread runs the stream. Its exception is the stream's error.
   *
   * @param send as given at the launch; may be null
   * @param recv as given at the launch; may be null
   * @param ticket as given at the launch
   */
  void run(HostMemory send, HostMemory recv, long ticket);

  /**
   * Runs as the other run does.
   *
   * @param following launches of the same operation on the same memories that come next, as far as
   *     is known; for choices that any number leaves right
   */
  @HotPath
  default void run(HostMemory send, HostMemory recv, long ticket, long following) {
    run(send, recv, ticket);
  }
}
