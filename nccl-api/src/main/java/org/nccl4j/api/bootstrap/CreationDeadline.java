package org.nccl4j.api.bootstrap;

import java.time.Duration;
import org.nccl4j.api.bootstrap.connection.Deadline;

/**
 * Bounds a rank's exchanges: all of a creation together by one deadline, which begins before the
 * ranks meet, and each one afterwards by a deadline of its own. Any thread.
 */
final class CreationDeadline {
  private final Duration length;

  /** Null while nothing is being made. */
  private volatile Deadline whole;

  /** A creation has begun. */
  CreationDeadline(Deadline whole) {
    this.length = whole.length();
    this.whole = whole;
  }

  /** Another creation begins. */
  void begin() {
    whole = Deadline.after(length);
  }

  /** Ends the deadline. */
  void end() {
    whole = null;
  }

  /** Returns the deadline of an exchange that begins now. */
  Deadline now() {
    Deadline running = whole;
    return running == null ? Deadline.after(length) : running;
  }
}
