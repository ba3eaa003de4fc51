package org.nccl4j.device.kernel;

import org.nccl4j.device.OrderMismatchException;

/**
 * Common code of devices for communicators that share connections. Their ranks call them in one
 * order; where they do not, one would take the other's data for its own. So where the communicator
 * changes, the sender tells the receiver from which step on, and the receiver compares what it has
 * taken before with that.
 */
public final class SharedConnections {
  /**
   * Offset from a channel's tail of what the sender tells: the step from which on it sends for a
   * communicator in the upper half, then that communicator and the one before it, 16 bits each; 0
   * before the first change, and always where a proxy carries the connection.
   */
  public static final long TOLD = 96;

  /** The communicator that the connections were made for. */
  public static final int FIRST = 0;

  private static final int MOST = 0xffff;

  private SharedConnections() {}

  /**
   * Returns the number that identifies a communicator. Two communicators with the same number would
   * not be distinguished.
   *
   * @param path where it comes from: the same on all its ranks, another for each that shares
   */
  public static int user(String path) {
    return 1 + Math.floorMod(path.hashCode(), MOST);
  }

  /**
   * Returns the error text for a rank that got data sent for another communicator.
   *
   * @param whose the communicator of the operation that found it
   */
  public static String complaint(String whose, int rank, int peer) {
    return ("the ranks use communicators that share connections in different orders: before an"
            + " operation of %s rank %d received data that rank %d had sent for another"
            + " communicator")
        .formatted(whose, rank, peer);
  }

  /** The error of a complaint. */
  public static OrderMismatchException mismatch(String complaint) {
    return new OrderMismatchException(
        complaint,
        "make the calls in the same order on all ranks (NCCL_CHECK_MODE=DEBUG_GLOBAL names them),"
            + " or split with connections of their own"
            + " (CommunicatorConfig.withSplitShare(false))");
  }
}
