package org.nccl4j.api.plan.algorithm;

import org.nccl4j.api.window.RegisteredWindow;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/**
 * The access that ranks have to the buffers of an operation.
 *
 * @param send of the send buffer
 * @param recv of the receive buffer
 * @param overlaps whether the buffers overlap in their windows
 * @param askew whether the buffers lie differently in packs of 16 bytes
 * @param covered whether one access reaches the library's own window on all ranks
 */
public record BufferReach(By send, By recv, boolean overlaps, boolean askew, boolean covered) {
  /**
   * The ranks that can address a buffer: its rank, each other rank too, or all ranks' buffers with
   * one access.
   */
  public enum By {
    OWN,
    PEERS,
    MULTICAST;

    public static By of(RegisteredWindow window) {
      return window == null ? OWN : window.view().multicast() == null ? PEERS : MULTICAST;
    }
  }

  /** True if an algorithm between windows can work on the buffers. */
  public boolean allows(Algorithm algorithm, Operation operation) {
    boolean lines = algorithm.isLines();
    By least = algorithm.isMulticast() && !lines ? By.MULTICAST : By.PEERS;
    return (send.compareTo(least) >= 0 || !algorithm.needsSend(operation))
        && (recv.compareTo(least) >= 0 || !algorithm.needsRecv(operation))
        && (covered || !(algorithm.isMulticast() && lines))
        && !(algorithm.needsApart(operation) && mayOverlap())
        && !(algorithm.needsAlike(operation) && askew);
  }

  /**
   * True unless no rank's buffers overlap. A rank knows that of the others if both buffers lie in
   * windows, where they lie alike on all ranks.
   */
  private boolean mayOverlap() {
    return overlaps || recv == By.OWN;
  }
}
