package org.nccl4j.api.plan.cost;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Costs between windows on the host device: two barriers, and the memory bandwidth for the bytes
 * that the busiest rank reads and writes. In the units of {@link HostCostModel}.
 *
 * @param base the costs over connections
 * @param nRanks ranks, all on this machine
 * @param cores that they share
 */
record HostWindowCosts(CostModel base, int nRanks, int cores) implements CostOverlay {
  private static final double BARRIER = 0.16;
  private static final double PEER = 0.03;

  /** The same two where {@link HostCostModel#crosses} says so. */
  private static final double FAR_BARRIER = 0.5;

  private static final double FAR_PEER = 0.25;
  private static final double GIGABYTES = HostCostModel.SINGLE_COPY_GIGABYTES;
  private static final double LINE_GIGABYTES = 2.5;
  private static final double SEND = 0.4;

  /** Lines are there only with multicast ({@link NvlsCostModel}), and their time is known here. */
  @Override
  public List<Algorithm> algorithms(Operation operation) {
    List<Algorithm> algorithms = new ArrayList<>(base.algorithms(operation));
    algorithms.add(Algorithm.DIRECT_ONE_SHOT);
    if (Algorithm.DIRECT_TWO_SHOT.has(operation)) {
      algorithms.add(Algorithm.DIRECT_TWO_SHOT);
    }
    return algorithms;
  }

  @Override
  public double microseconds(
      Operation operation, Algorithm algorithm, Protocol protocol, long bytes) {
    boolean pairwise = algorithm == Algorithm.PAIRWISE;
    if (!pairwise && !algorithm.isBetweenWindows()) {
      return base.microseconds(operation, algorithm, protocol, bytes);
    }
    double sharing = Math.max(1, (double) nRanks / cores);
    long part = bytes / operation.wholes(nRanks);
    if (pairwise) {
      return sharing * (SEND + 2.0 * nRanks * part / (GIGABYTES * 1e3));
    }
    if (algorithm.isLines()) {
      return sharing * lines(part);
    }
    double latency = 2 * barrier();
    return sharing * (latency + passes(operation, algorithm) * part / (GIGABYTES * 1e3));
  }

  private double barrier() {
    return HostCostModel.crosses(nRanks, cores)
        ? FAR_BARRIER + nRanks * FAR_PEER
        : BARRIER + nRanks * PEER + HostCostModel.switching(nRanks, cores);
  }

  private double lines(long bytes) {
    return bytes > HostDevice.lineData()
        ? Double.POSITIVE_INFINITY
        : barrier() + 4.0 * nRanks * bytes / (LINE_GIGABYTES * 1e3);
  }

  /** Returns how many times the busiest rank reads or writes count elements. */
  private double passes(Operation operation, Algorithm algorithm) {
    return switch (operation) {
      case ALL_REDUCE -> algorithm == Algorithm.DIRECT_TWO_SHOT ? 2 : nRanks;
      case BROADCAST -> 2;
      default -> nRanks;
    };
  }

  @Override
  public int channels(Operation operation, AlgorithmChoice choice, long bytes) {
    return choice.algorithm().isBetweenWindows() ? 1 : base.channels(operation, choice, bytes);
  }

  @Override
  public boolean comparesWindows() {
    return true;
  }

  @Override
  public boolean makesSpaceAhead() {
    return true;
  }

  @Override
  public String windowSource() {
    return "formula of barriers and memory bandwidth, %d ranks on %d cores"
        .formatted(nRanks, cores);
  }
}
