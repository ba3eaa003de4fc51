package org.nccl4j.api.observe;

/** Finds the operation that has waited so long that it is logged. One thread. */
final class LongWait {
  /** A wait of this length is logged. */
  static final long MILLIS = 60_000;

  private long operation = -1;
  private long sinceMillis;
  private boolean told;

  /**
   * True if the operation under way has waited for long, once for each.
   *
   * @param ended how many have ended before it
   * @param waits whether it waits for another rank now
   * @param nowMillis any clock that does not go back
   */
  boolean isDue(long ended, boolean waits, long nowMillis) {
    if (ended != operation) {
      operation = -1;
    }
    if (!waits) {
      return false;
    }
    if (operation < 0) {
      operation = ended;
      sinceMillis = nowMillis;
      told = false;
    }
    boolean due = !told && nowMillis - sinceMillis >= MILLIS;
    told |= due;
    return due;
  }
}
