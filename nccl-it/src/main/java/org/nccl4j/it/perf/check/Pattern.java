package org.nccl4j.it.perf.check;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;

/**
 * A long run of elements that repeats after a prime number of them: cheap to make, and data that an
 * algorithm misplaced by whole chunks does not match it.
 */
final class Pattern {
  private static final int PERIOD = 65521;

  private final int period;
  private final int elementBytes;
  private final ByteBuffer block;

  private Pattern(DataType type, int period) {
    this.period = period;
    this.elementBytes = type.bytes();
    this.block = ByteBuffer.allocateDirect(period * elementBytes).order(ByteOrder.nativeOrder());
  }

  /** The values that determine the elements of a pattern. */
  interface Source {
    /** Writes the element of an index. */
    void put(ByteBuffer buffer, int position, int index);
  }

  /**
   * A pattern of at least as many different elements as are looked at, or the period.
   *
   * @param reach elements from index 0 on that will be used
   */
  static Pattern of(DataType type, long reach, Source source) {
    Pattern pattern = new Pattern(type, (int) Math.min(PERIOD, Math.max(1, reach)));
    for (int index = 0; index < pattern.period; index++) {
      source.put(pattern.block, index * pattern.elementBytes, index);
    }
    return pattern;
  }

  /** The bytes of some of the elements from an index on: as many as there are before it repeats. */
  ByteBuffer run(long from, long count) {
    int start = (int) (from % period);
    int length = (int) Math.min(count, period - start);
    return block.slice(start * elementBytes, length * elementBytes).order(ByteOrder.nativeOrder());
  }

  /** Writes elements from an index on to the beginning of a memory. */
  void write(DeviceMemory target, long from, long count) {
    for (long done = 0; done < count; ) {
      ByteBuffer run = run(from + done, count - done);
      int bytes = run.remaining();
      target.write(done * elementBytes, run);
      done += bytes / elementBytes;
    }
  }
}
