package org.nccl4j.device.kernel;

import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;

/** The error of ranks whose calls differ, as the data of their calls tell. */
public final class CallMismatch {
  /** Remedy for the error message. */
  public static final String REMEDY =
      "make the same calls with the same arguments in the same order on all ranks; threads of a"
          + " rank need an order that is the same on all ranks, or a communicator each (split with"
          + " CommunicatorConfig.withSplitShare(false)); NCCL_CHECK_MODE=DEBUG_GLOBAL compares all"
          + " collectives before they begin";

  private CallMismatch() {}

  /**
   * The error of a rank that got data of another call than its own.
   *
   * @param communicator its name
   * @param call the rank's own; see {@link CallText}
   * @param peer whose data they are
   * @param known a clause on what the two call, as far as records tell; may be empty
   */
  public static InvalidUsageException of(
      String communicator, int rank, String call, int peer, String known) {
    return new InvalidUsageException(
        ErrorId.CALLS_DIFFER,
        problem(communicator, rank, "is in " + call + " and ", peer)
            + (known.isEmpty() ? "" : "; " + known),
        REMEDY);
  }

  /**
   * The problem of a rank that does not know its own call, as on a GPU.
   *
   * @param communicator its name
   * @param peer whose data it got
   */
  public static String problem(String communicator, int rank, int peer) {
    return problem(communicator, rank, "", peer);
  }

  private static String problem(String communicator, int rank, String doing, int peer) {
    return ("the ranks of communicator %s make different calls: rank %d %sreceived data of another"
                + " call")
            .formatted(communicator, rank, doing)
        + " from rank "
        + peer;
  }
}
