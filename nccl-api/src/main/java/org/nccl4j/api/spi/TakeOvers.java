package org.nccl4j.api.spi;

/**
 * The paths of a network's connection, such as sockets, that broke and that others have replaced,
 * since the connection was made. The connection itself goes on.
 *
 * @param count replaced paths
 * @param lastMillis when the last was replaced, ms since 1970; 0 if none was
 * @param bytesAgain bytes that were sent again
 * @param path by which the last goes on, for people: interface and addresses; may be empty
 */
public record TakeOvers(long count, long lastMillis, long bytesAgain, String path) {
  /** No path was replaced. */
  public static final TakeOvers NONE = new TakeOvers(0, 0, 0, "");

  /** These and those of another connection together. */
  public TakeOvers and(TakeOvers other) {
    if (other.count == 0) {
      return this;
    }
    return count == 0
        ? other
        : new TakeOvers(
            count + other.count,
            Math.max(lastMillis, other.lastMillis),
            bytesAgain + other.bytesAgain,
            other.lastMillis > lastMillis ? other.path : path);
  }
}
