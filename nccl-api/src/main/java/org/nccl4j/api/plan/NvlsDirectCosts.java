package org.nccl4j.api.plan;

import org.nccl4j.device.kernel.DirectWork;
import org.nccl4j.device.kernel.Nvls;

/**
 * The host device's direct costs with NVLS in place among them. Emulated, it moves what the other
 * direct ways move, and pays a little for the looks at all memories; so it is taken where it is
 * asked for.
 *
 * @param base the costs of all else
 * @param nvls a rank's place, on a single machine
 */
record NvlsDirectCosts(DirectCosts base, Nvls nvls) implements DirectCosts {
  private static final double EMULATION = 1.02;

  @Override
  public double microseconds(DirectWork.Operation operation, DirectWork.Way way, long bytes) {
    if (way != DirectWork.Way.NVLS) {
      return base.microseconds(operation, way, bytes);
    }
    return switch (operation) {
      case ALL_REDUCE -> EMULATION * base.microseconds(operation, DirectWork.Way.TWO_SHOT, bytes);
      case ALL_GATHER, REDUCE_SCATTER ->
          nvls.allAreHeads()
              ? EMULATION * base.microseconds(operation, DirectWork.Way.ONE_SHOT, bytes)
              : Double.POSITIVE_INFINITY;
      case BROADCAST, REDUCE, ALL_TO_ALL, SCATTER, GATHER -> Double.POSITIVE_INFINITY;
    };
  }

  @Override
  public double pairwise(DirectWork.Operation operation, long bytes) {
    return base.pairwise(operation, bytes);
  }

  @Override
  public int blocks(DirectWork.Operation operation, DirectWork.Way way, long bytes) {
    return base.blocks(operation, way, bytes);
  }

  @Override
  public boolean worksWithoutWindows() {
    return base.worksWithoutWindows();
  }

  @Override
  public boolean areMeasured() {
    return base.areMeasured();
  }

  @Override
  public String source() {
    return base.source();
  }
}
