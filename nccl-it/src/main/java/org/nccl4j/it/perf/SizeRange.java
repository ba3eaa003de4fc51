package org.nccl4j.it.perf;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;

/**
 * The sizes of a sweep.
 *
 * @param min first, in bytes
 * @param max none is larger, in bytes
 * @param step added each time; 0 if there is a factor
 * @param factor multiplied with each time; 1 if there is a step
 */
record SizeRange(long min, long max, long step, int factor) {
  private static final int MOST = 10_000;

  SizeRange {
    if (min > max) {
      throw new InvalidArgumentException(
          ErrorId.OPTION,
          "the sizes begin with -b %s and end with -e %s, which is less"
              .formatted(new ByteSize(min), new ByteSize(max)),
          "give a larger -e, or a smaller -b");
    }
    if (factor == 1 && step == 0 && min != max) {
      throw new InvalidArgumentException(
          ErrorId.OPTION,
          "the sizes never grow: the step is 0",
          "give -i a size above 0, or -f a factor above 1");
    }
    if (factor == 1 && step > 0 && (max - min) / step >= MOST) {
      throw new InvalidArgumentException(
          ErrorId.OPTION,
          "from %s to %s by steps of %s there are more than %d sizes"
              .formatted(new ByteSize(min), new ByteSize(max), new ByteSize(step), MOST),
          "give -i a larger step, or -f a factor");
    }
  }

  /** The sizes in bytes, ascending. */
  List<Long> sizes() {
    List<Long> sizes = new ArrayList<>();
    long size = min;
    while (size <= max) {
      sizes.add(size);
      if (min == max) {
        break;
      }
      // A size of 0 is measured once, and then the sizes begin to grow.
      size = factor > 1 ? Math.max(1, size * factor) : size + step;
    }
    return sizes;
  }

  @Override
  public String toString() {
    return factor > 1 ? factor + "(factor)" : step + "(bytes)";
  }
}
