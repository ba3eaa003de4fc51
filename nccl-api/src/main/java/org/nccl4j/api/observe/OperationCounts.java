package org.nccl4j.api.observe;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.BiConsumer;
import org.nccl4j.api.observe.times.StreamTimes;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceStream;

/** Counts one rank's operations by name, while it is a hook of them. Any thread reads. */
public final class OperationCounts implements OperationHook {
  /**
   * Counters of one operation.
   *
   * @param launched into streams
   * @param bytes of their counts
   * @param ended those whose end was seen, on a GPU some milliseconds later; without those that
   *     were captured into graphs
   * @param nanos sum of the times from launch to end
   */
  public record Count(LongAdder launched, LongAdder bytes, LongAdder ended, LongAdder nanos) {
    private Count() {
      this(new LongAdder(), new LongAdder(), new LongAdder(), new LongAdder());
    }
  }

  private final Map<String, Count> counts = new ConcurrentHashMap<>();
  private final BiConsumer<String, Count> onFirst;
  private final StreamTimes times = new StreamTimes();

  /**
   * Nothing counted.
   *
   * @param onFirst receives each operation's counts when it is launched for the first time
   */
  public OperationCounts(BiConsumer<String, Count> onFirst) {
    this.onFirst = onFirst;
  }

  /** Returns the counts by operation. */
  public Map<String, Count> all() {
    return Map.copyOf(counts);
  }

  private Count of(String what) {
    Count count = counts.get(what);
    if (count == null) {
      count = new Count();
      counts.put(what, count);
      onFirst.accept(what, count);
    }
    return count;
  }

  @Override
  public void launched(String what, long count, DataType type, int root, DeviceStream stream) {
    Count of = of(what);
    of.launched.increment();
    of.bytes.add(count * type.bytes());
    if (!stream.isCapturing()) {
      long began = System.nanoTime();
      times.add(
          stream,
          end -> {
            of.nanos.add(Math.max(0, end - began));
            of.ended.increment();
          });
    }
  }

  @Override
  public void settle(boolean all, long end) {
    times.settle(all, end);
  }

  @Override
  public void close() {
    times.close();
  }
}
