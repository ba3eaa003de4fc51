package org.nccl4j.device.kernel;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.nccl4j.device.HotPath;

/**
 * Launches of a communicator that were captured into one graph of this library, and how often the
 * graph was launched since. Any thread.
 */
public final class CapturedLaunches {
  private final List<long[]> ranges = new ArrayList<>();
  private final AtomicLong replays = new AtomicLong();
  private volatile boolean over;

  /** Receives numbers of launches. */
  public interface RangeVisitor {
    /** Takes the launches with numbers above one and up to another. */
    void visit(long above, long upTo);
  }

  /** More launches were captured: those with numbers above one and up to another. */
  public synchronized void add(long above, long upTo) {
    long[] last = ranges.isEmpty() ? null : ranges.get(ranges.size() - 1);
    if (last != null && last[1] == above) {
      last[1] = upTo;
    } else {
      ranges.add(new long[] {above, upTo});
    }
  }

  /** The graph was launched. */
  @HotPath
  public void replayed() {
    replays.incrementAndGet();
  }

  /** The graph is launched no more. */
  public void end() {
    over = true;
  }

  /** How often the graph was launched so far. */
  public long replays() {
    return replays.get();
  }

  /** True if the number of {@link #replays} grows no more. */
  public boolean isOver() {
    return over;
  }

  /** Visits the launches so far, in the order of their numbers. */
  public synchronized void visit(RangeVisitor visitor) {
    ranges.forEach(range -> visitor.visit(range[0], range[1]));
  }
}
