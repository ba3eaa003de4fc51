package org.nccl4j.transport.net.socket.silence;

/**
 * The place at which a lane has stopped. The receiving end reports a place at which it waits for
 * bytes that do not come. The sending end doubts the lane if it had written more by the first
 * report, or has more to write, and the reports of the same place go on. A place is the low bits of
 * a part's number and bytes of it (32). Time is an argument, in nanoseconds. Owned by the thread
 * that has the link's turn.
 */
public final class LaneSilence {
  /** Bits of a part's number that a report has. */
  public static final int PART_BITS = 24;

  /** The place of a sending end that has more to write. */
  public static final long BEYOND = -2;

  private static final long NOWHERE = -1;

  private final long bound;
  private long place = NOWHERE;
  private long since;
  private long last;

  /** Begins without a place; a bound of zero reports and doubts nothing. */
  public LaneSilence(long bound) {
    this.bound = bound;
  }

  public static long place(long part, int bytes) {
    return (part & (1 << PART_BITS) - 1) << 32 | bytes;
  }

  /** Forgets the place. */
  public void begin() {
    place = NOWHERE;
  }

  /**
   * On the receiving end: true if the place is to be reported.
   *
   * @param here the place where the lane is
   * @param waits whether it waits for bytes there
   */
  public boolean owesReport(long now, long here, boolean waits) {
    if (bound == 0 || !waits || here != place) {
      place = waits ? here : NOWHERE;
      since = now;
      last = now;
      return false;
    }
    if (now - since < bound / 2 || now - last < bound / 4) {
      return false;
    }
    last = now;
    return true;
  }

  /**
   * On the sending end: the receiver reports a place.
   *
   * @param written the place up to which this end has written; {@link #BEYOND} if it has more
   */
  public void report(long now, long reported, long written) {
    if (reported == written) {
      place = NOWHERE;
    } else if (reported != place || now - last > bound) {
      place = reported;
      since = now;
    }
    last = now;
  }

  /** On the sending end: true if another socket is to be tried. */
  public boolean isDoubtful(long now) {
    return bound > 0 && place != NOWHERE && last - since >= bound / 2 && now - last < bound;
  }
}
