package org.nccl4j.api.bootstrap.connection;

import java.time.Duration;
import java.util.Locale;
import org.nccl4j.device.support.Patience;

/**
 * A point on the monotonic clock, a length from when it was made.
 *
 * @param nanoTime the point, comparable with {@link System#nanoTime()}
 * @param length how far off it was, for messages
 */
public record Deadline(long nanoTime, Duration length) {
  private static final Duration LONGEST = Duration.ofDays(365);

  public static Deadline after(Duration length) {
    Duration bounded = length.compareTo(LONGEST) > 0 ? LONGEST : length;
    return new Deadline(System.nanoTime() + bounded.toNanos(), bounded);
  }

  /** This, or one that comes before it after a length from now. */
  public Deadline atMost(Duration other) {
    Deadline sooner = after(other);
    return sooner.nanoTime - nanoTime < 0 ? sooner : this;
  }

  /** Nanoseconds until it; not positive once it has passed. */
  public long leftNanos() {
    return nanoTime - System.nanoTime();
  }

  public boolean passed() {
    return leftNanos() <= 0;
  }

  /** A measured time for people: "0.4 s". */
  public static String seconds(Duration measured) {
    return String.format(Locale.ROOT, "%.1f s", measured.toNanos() / 1e9);
  }

  /** Returns the length for people: "60 s", "250 ms". */
  public String text() {
    return Patience.text(length);
  }
}
