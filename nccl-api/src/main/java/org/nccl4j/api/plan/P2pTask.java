package org.nccl4j.api.plan;

import java.util.Objects;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.kernel.P2pWork;

/**
 * A send or receive as a user called it.
 *
 * @param sends whether it sends
 * @param peer the other rank
 * @param buffer the data, from its beginning
 * @param bytes how many
 * @param offer as {@link P2pWork} has it
 */
public record P2pTask(
    boolean sends, int peer, DeviceMemory buffer, long bytes, P2pWork.Offer offer) {

  /** Compares by value: memory is sliced, and pointers are wrapped, anew at each call. */
  @Override
  public boolean equals(Object other) {
    return other == this
        || other instanceof P2pTask task
            && is(task.sends, task.peer, task.buffer, task.bytes, task.offer);
  }

  @Override
  public int hashCode() {
    long hash =
        ((buffer == null ? 0 : buffer.address()) * 31 + bytes) * 31 + 2L * peer + (sends ? 1 : 0);
    return Long.hashCode(hash * 0x9E3779B97F4A7C15L);
  }

  /** True if it is this one. */
  public boolean is(
      boolean itSends, int itsPeer, DeviceMemory itsBuffer, long itsBytes, P2pWork.Offer itsOffer) {
    return sends == itSends
        && peer == itsPeer
        && bytes == itsBytes
        && (buffer == itsBuffer
            || buffer != null && itsBuffer != null && buffer.isSameAs(itsBuffer))
        && Objects.equals(offer, itsOffer);
  }
}
