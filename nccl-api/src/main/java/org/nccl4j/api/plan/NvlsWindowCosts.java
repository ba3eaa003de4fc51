package org.nccl4j.api.plan;

import org.nccl4j.device.kernel.Algorithm;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.Operation;

/**
 * A device's direct costs with NVLS among them. By the switch, in place, an all-reduce carries over
 * a GPU's links what it does through slots (docs/concepts/nvls.md). Emulated, all ways by multicast
 * move what the other direct ways move, and a little more for the looks at all memories; so they
 * are taken where they are asked for.
 *
 * @param base the costs of all else
 * @param nvls a rank's place, on a single machine
 */
record NvlsWindowCosts(WindowCosts base, Nvls nvls) implements WindowCosts {
  private static final double EMULATION = 1.02;

  /**
   * Gain of multicast stores over stores to one rank after the other, from NCCL's model of lines.
   */
  private static final double FEWER_STORES = 1.1;

  /** Two barriers and a launch, on GPUs. */
  private static final double LATENCY = 8;

  @Override
  public double microseconds(Operation operation, Algorithm way, long bytes) {
    if (!way.isMulticast()) {
      return base.microseconds(operation, way, bytes);
    }
    boolean gathers = operation == Operation.ALL_GATHER;
    boolean scatters = operation == Operation.REDUCE_SCATTER;
    if (operation != Operation.ALL_REDUCE && !gathers && !scatters) {
      return Double.POSITIVE_INFINITY;
    }
    if (way == Algorithm.DIRECT_NVLS_LL) {
      return scatters ? Double.POSITIVE_INFINITY : lines(operation, bytes);
    }
    if ((gathers || scatters) && !nvls.allAreHeads()) {
      return Double.POSITIVE_INFINITY;
    }
    if (!nvls.multicast().emulated()) {
      int n = nvls.members().size();
      long whole = gathers || scatters ? n * bytes : bytes;
      return LATENCY + NvlsCostModel.switchMicroseconds(!gathers && !scatters, n, whole);
    }
    Algorithm same = gathers || scatters ? Algorithm.DIRECT_ONE_SHOT : Algorithm.DIRECT_TWO_SHOT;
    return EMULATION * base.microseconds(operation, same, bytes);
  }

  /**
   * Returns the time of lines by multicast stores. As many lines come in as by stores to one rank
   * after the other, and fewer go out.
   */
  @Override
  public double lines(Operation operation, long bytes) {
    double each = base.lines(operation, bytes);
    return nvls.multicast().emulated() ? EMULATION * each : each / FEWER_STORES;
  }

  @Override
  public double pairwise(Operation operation, long bytes) {
    return base.pairwise(operation, bytes);
  }

  @Override
  public int blocks(Operation operation, Algorithm way, long bytes) {
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
    return base.source()
        + (nvls.multicast().emulated() ? "; NVLS emulated" : "; NVLS by the switch, predicted");
  }
}
