package org.nccl4j.api.plan.cost;

import java.util.List;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.system.Bandwidths;

/**
 * Costs between windows on GPUs over NVLink without measured times. An algorithm between windows
 * moves the same bytes over the same links as one over connections, without slots. So the time of
 * its bytes is that of the other, multiplied by their ratio measured on 2 and 4 H200:
 * docs/benchmarks/h200-direct.md. Its latency is derived in the same way from that of one-shot in
 * lines. Copy engines are used only if the user names them.
 *
 * @param base the costs over connections
 * @param nRanks ranks
 * @param links GB/s that the NVLinks of a GPU carry one way; 0 if not known
 */
record UnmeasuredWindowCosts(CostModel base, int nRanks, double links) implements CostOverlay {
  /**
   * A ratio to the time of few bytes by one-shot in lines, and a ratio to the time of further
   * bytes.
   */
  private record Ratio(double latency, double bytes) {}

  /** The GPU on which the ratios were measured. */
  private static final String LIKE = "NVIDIA H200";

  /** GB/s that its 18 NVLinks carry one way, as topologies have them. */
  private static final double LINKS_OF_LIKE = 18 * Bandwidths.nvLink(90);

  private static final double LINE_LATENCY = 0.57;
  private static final double LINE_PEER = 0.05;
  private static final double LINE_MOST = 0.95;

  /** Ratios to the bytes' time in LL128 and in LL. */
  private static final double LINE_TO_LL128 = 1.3;

  private static final double LINE_TO_LL = 0.7;
  private static final Ratio ONE_STEP = new Ratio(1.1, 0.95);
  private static final Ratio TWO_STEPS = new Ratio(1.25, 1.03);

  /** More than any other algorithm of as many bytes, so that copies are taken where asked for. */
  private static final Ratio DOUBTED = new Ratio(5, 1.5);

  @Override
  public List<Algorithm> algorithms(Operation operation) {
    return GpuWindowCosts.algorithms(base, operation, nRanks);
  }

  @Override
  public double microseconds(
      Operation operation, Algorithm algorithm, Protocol protocol, long bytes) {
    return switch (algorithm) {
      case PAIRWISE -> pairwise(operation, bytes);
      case DIRECT_LL -> lines(operation, bytes);
      case DIRECT_LL128 ->
          line() != Protocol.LL128 || isBeyondLines(operation, algorithm, bytes)
              ? Double.POSITIVE_INFINITY
              : ONLY_WHERE_ASKED + bytes;
      case DIRECT_ONE_SHOT -> scaled(operation, algorithm, Protocol.SIMPLE, ONE_STEP, bytes);
      case DIRECT_TWO_SHOT -> scaled(operation, algorithm, Protocol.SIMPLE, TWO_STEPS, bytes);
      case COPY_ENGINE -> scaled(operation, algorithm, Protocol.SIMPLE, DOUBTED, bytes);
      default ->
          algorithm.isBetweenWindows()
              ? ONLY_WHERE_ASKED + bytes
              : base.microseconds(operation, algorithm, protocol, bytes);
    };
  }

  private boolean isBeyondLines(Operation operation, Algorithm algorithm, long bytes) {
    return bytes / operation.wholes(nRanks) > CudaDevice.lineData(nRanks, algorithm);
  }

  private double lines(Operation operation, long bytes) {
    if (isBeyondLines(operation, Algorithm.DIRECT_LL, bytes)) {
      return Double.POSITIVE_INFINITY;
    }
    if (operation.isRooted() && nRanks > 2) {
      return ONLY_WHERE_ASKED + bytes; // all ranks exchange lines, over connections root and others
    }
    Protocol line = line();
    double latency = Math.min(LINE_MOST, LINE_LATENCY + LINE_PEER * nRanks);
    Ratio ratio = new Ratio(latency, line == Protocol.LL128 ? LINE_TO_LL128 : LINE_TO_LL);
    return scaled(operation, Algorithm.DIRECT_LL, line, ratio, bytes);
  }

  /**
   * Blocks as measured on H200: they follow from the bytes rather than from the GPU. The channels
   * of the costs over connections are made for steps through slots, and are too many for few bytes.
   */
  @Override
  public int channels(Operation operation, AlgorithmChoice choice, long bytes) {
    return choice.algorithm().isBetweenWindows()
        ? GpuWindowCosts.of(LIKE, nRanks)
            .blocks(operation, choice.algorithm(), bytes / operation.wholes(nRanks))
        : base.channels(operation, choice, bytes);
  }

  /**
   * Fewest blocks as measured on H200, and more where the links carry more: a multiprocessor stores
   * over NVLink as fast as there. Where they carry less, as many: older multiprocessors are slower.
   */
  @Override
  public int fewestChannels(Operation operation, AlgorithmChoice choice, long bytes) {
    if (!choice.algorithm().isBetweenWindows()) {
      return base.fewestChannels(operation, choice, bytes);
    }
    int there =
        GpuWindowCosts.of(LIKE, nRanks)
            .fewestBlocks(operation, choice.algorithm(), bytes / operation.wholes(nRanks));
    return (int) Math.round(there * Math.max(1, links / LINKS_OF_LIKE));
  }

  private Protocol line() {
    return protocols().contains(Protocol.LL128) && has(Algorithm.ONE_SHOT, Protocol.LL128)
        ? Protocol.LL128
        : Protocol.LL;
  }

  /** Every rank sends each other a part, as in a one-shot all-gather. */
  private double pairwise(Operation operation, long bytes) {
    return protocols().stream()
        .filter(protocol -> has(Algorithm.ONE_SHOT, protocol))
        .mapToDouble(
            protocol -> base.microseconds(like(operation), Algorithm.ONE_SHOT, protocol, bytes))
        .min()
        .orElseThrow();
  }

  private double scaled(
      Operation operation, Algorithm algorithm, Protocol protocol, Ratio ratio, long bytes) {
    return ratio.latency * base.microseconds(like(operation), Algorithm.ONE_SHOT, line(), 0)
        + ratio.bytes * further(operation, algorithm, protocol, bytes);
  }

  /** Returns the time of some bytes beyond that of none, over connections. */
  private double further(Operation operation, Algorithm direct, Protocol protocol, long bytes) {
    Operation alike = like(operation);
    Algorithm algorithm = direct.counterpart();
    return base.microseconds(alike, algorithm, protocol, bytes)
        - base.microseconds(alike, algorithm, protocol, 0);
  }

  /** The operation over connections that moves as many bytes of the same whole. */
  private static Operation like(Operation operation) {
    return operation.isCollective() ? operation : Operation.ALL_GATHER;
  }

  @Override
  public boolean comparesWindows() {
    return true;
  }

  /** A program that registers no buffers keeps its memory. */
  @Override
  public boolean makesSpaceAhead() {
    return false;
  }

  @Override
  public String windowSource() {
    return "times over connections, scaled by the ratios on H200";
  }
}
