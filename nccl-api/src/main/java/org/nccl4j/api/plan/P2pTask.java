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

  /** Whether it is this one. */
  public boolean is(
      boolean itSends, int itsPeer, DeviceMemory itsBuffer, long itsBytes, P2pWork.Offer itsOffer) {
    return sends == itSends
        && peer == itsPeer
        && buffer == itsBuffer
        && bytes == itsBytes
        && Objects.equals(offer, itsOffer);
  }
}
