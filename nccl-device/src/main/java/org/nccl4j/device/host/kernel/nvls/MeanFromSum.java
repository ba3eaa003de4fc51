package org.nccl4j.device.host.kernel.nvls;

import java.nio.ByteBuffer;
import org.nccl4j.device.DataType;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.reduce.Reduction;
import org.nccl4j.device.host.reduce.Reductions;
import org.nccl4j.device.numeric.FloatFormat;

/**
 * The mean of floating-point numbers where a switch gives their sum: the sum is divided. A sum may
 * overflow where the mean does not; such elements are combined again, rank by rank, each divided
 * before it is added. Owned by the thread that runs the communicator's current kernel.
 */
final class MeanFromSum {
  private final FloatFormat format;
  private final int size;
  private final Reduction division;
  private final Reduction byRanks;
  private final HostMemory element;

  /**
   * A mean over ranks.
   *
   * @param element scratch of 8 bytes
   */
  MeanFromSum(DataType type, int ranks, HostMemory element) {
    this.format = FloatFormat.of(type);
    this.size = type.bytes();
    this.division = Reductions.of(type, RedOp.AVG, ranks);
    this.byRanks = Reductions.ofAll(type, RedOp.AVG, ranks);
    this.element = element;
  }

  /**
   * Makes means of sums.
   *
   * @param sends all ranks' elements
   * @param offset of the first of them
   * @param sums of them, from the begin on; replaced
   */
  @HotPath
  void finish(MulticastAccess sends, long offset, HostMemory sums, int count) {
    for (int begin = 0; begin < count; ) {
      int end = begin;
      while (end < count && isFinite(sums, end)) {
        end++;
      }
      long at = (long) begin * size;
      division.prepare(sums, at, sums, at, end - begin);
      if (end < count) {
        at = (long) end * size;
        sends.combineByRanks(byRanks, offset + at, sums, at, element);
      }
      begin = end + 1;
    }
  }

  @HotPath
  private boolean isFinite(HostMemory sums, int which) {
    long at = (long) which * size;
    ByteBuffer window = sums.window(at);
    int index = sums.index(at);
    long bits =
        switch (size) {
          case 1 -> window.get(index);
          case 2 -> window.getShort(index);
          case 4 -> window.getInt(index);
          default -> window.getLong(index);
        };
    return Double.isFinite(format.toDouble(bits));
  }
}
