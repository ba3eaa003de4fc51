package org.nccl4j.api.plan;

import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.kernel.Algorithm;
import org.nccl4j.device.kernel.Operation;

/**
 * Direct costs on the host device: two barriers, and passes over memory for what the busiest rank
 * reads and writes. Compared with {@link HostCostModel}, and in its units.
 *
 * @param nRanks ranks, all on this machine
 * @param cores that they share
 */
record HostWindowCosts(int nRanks, int cores) implements WindowCosts {
  private static final double BARRIER = 0.16;
  private static final double PEER = 0.03;
  private static final double GIGABYTES = 20;
  private static final double LINE_GIGABYTES = 2.5;
  private static final double SEND = 0.4;

  @Override
  public double microseconds(Operation operation, Algorithm way, long bytes) {
    boolean twoShot = way == Algorithm.DIRECT_TWO_SHOT && operation == Operation.ALL_REDUCE;
    if (way != Algorithm.DIRECT_ONE_SHOT && !twoShot) {
      return Double.POSITIVE_INFINITY;
    }
    double sharing = Math.max(1, (double) nRanks / cores);
    double latency = 2 * (BARRIER + nRanks * PEER);
    return sharing * (latency + passes(operation, way) * bytes / (GIGABYTES * 1e3));
  }

  /** Returns how many times the busiest rank reads or writes count elements. */
  private double passes(Operation operation, Algorithm way) {
    return switch (operation) {
      case ALL_REDUCE -> way == Algorithm.DIRECT_TWO_SHOT ? 2 : nRanks;
      case BROADCAST -> 2;
      default -> nRanks;
    };
  }

  @Override
  public double lines(Operation operation, long bytes) {
    if (bytes > HostDevice.lineData()) {
      return Double.POSITIVE_INFINITY;
    }
    double sharing = Math.max(1, (double) nRanks / cores);
    return sharing * (BARRIER + nRanks * PEER + 4.0 * nRanks * bytes / (LINE_GIGABYTES * 1e3));
  }

  @Override
  public double pairwise(Operation operation, long bytes) {
    double sharing = Math.max(1, (double) nRanks / cores);
    return sharing * (SEND + 2.0 * nRanks * bytes / (GIGABYTES * 1e3));
  }

  @Override
  public int blocks(Operation operation, Algorithm way, long bytes) {
    return 1;
  }

  @Override
  public boolean worksWithoutWindows() {
    return false;
  }

  @Override
  public boolean areMeasured() {
    return true;
  }

  @Override
  public String source() {
    return "barriers and passes over memory, %d ranks on %d cores".formatted(nRanks, cores);
  }
}
