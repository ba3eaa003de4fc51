package org.nccl4j.testkit.faults;

/**
 * The faults of a {@link FaultyNetProvider}. Counts are of messages of one end of a connection;
 * {@link #NEVER} is never.
 *
 * @param seed of all that is random
 * @param refusals of 100 calls that begin a message, how many it answers with "not now"
 * @param delayLooks most times that it says "not yet" of a message that has ended
 * @param reorders whether a message may be seen to end before one that ended earlier
 * @param dropsAfter from this message on, sends are lost and seem never to end
 * @param diesAfter from this message on, the connection is broken
 * @param connects whether it connects at all
 */
public record NetFaults(
    long seed,
    int refusals,
    int delayLooks,
    boolean reorders,
    long dropsAfter,
    long diesAfter,
    boolean connects) {
  /** No message is that late. */
  public static final long NEVER = Long.MAX_VALUE;

  /** A slow network: refuses, delays and reorders, but loses nothing. */
  public static NetFaults slow(long seed) {
    return new NetFaults(seed, 30, 20, true, NEVER, NEVER, true);
  }

  /** Loses everything from a message on, without a word. */
  public static NetFaults drop(long after) {
    return new NetFaults(0, 0, 0, false, after, NEVER, true);
  }

  /** Breaks at a message. */
  public static NetFaults die(long after) {
    return new NetFaults(0, 0, 0, false, NEVER, after, true);
  }

  /** Refuses to connect. */
  public static NetFaults refuse() {
    return new NetFaults(0, 0, 0, false, NEVER, NEVER, false);
  }
}
