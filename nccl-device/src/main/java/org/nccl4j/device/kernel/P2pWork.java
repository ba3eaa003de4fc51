package org.nccl4j.device.kernel;

import org.nccl4j.device.DeviceMemory;

/**
 * One send or receive among several that progress together.
 *
 * @param kind whether it sends or receives
 * @param peer the other rank; may be this rank: then the kernel copies from the n-th send to itself
 *     to the n-th receive from itself
 * @param buffer the data, or null for the launch's own send or receive buffer
 * @param offset where the data begin in it
 * @param bytes how many
 * @param protocol how a step is handed over; the same at both ends, since both choose it by the
 *     size
 */
public record P2pWork(
    Kind kind, int peer, DeviceMemory buffer, long offset, long bytes, Protocol protocol) {
  /** Direction. */
  public enum Kind {
    /** Out of the buffer. */
    SEND,
    /** Into the buffer. */
    RECV
  }
}
