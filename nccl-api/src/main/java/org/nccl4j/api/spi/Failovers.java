package org.nccl4j.api.spi;

/**
 * The paths of a network's connection, such as sockets, that broke and were replaced since the
 * connection was created. The connection itself stays open.
 *
 * @param count replaced paths
 * @param lastMillis when the last was replaced, ms since 1970; 0 if none was
 * @param bytesAgain bytes that were sent again
 * @param path that replaced the last broken one, for messages: interface and addresses; may be
 *     empty
 */
public record Failovers(long count, long lastMillis, long bytesAgain, String path) {
  /** No path was replaced. */
  public static final Failovers NONE = new Failovers(0, 0, 0, "");

  /** Returns the sum of these and another connection's. */
  public Failovers and(Failovers other) {
    if (other.count == 0) {
      return this;
    }
    return count == 0
        ? other
        : new Failovers(
            count + other.count,
            Math.max(lastMillis, other.lastMillis),
            bytesAgain + other.bytesAgain,
            other.lastMillis > lastMillis ? other.path : path);
  }
}
