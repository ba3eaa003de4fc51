package org.nccl4j.api.plan;

import java.util.List;
import org.nccl4j.device.kernel.Algorithm;
import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.device.kernel.Operation;
import org.nccl4j.device.kernel.Protocol;

/**
 * Costs on the host device: a hand-over between cores for each dependent step, and a pass over
 * memory for each byte that a rank moves. Where ranks outnumber cores both are shared.
 *
 * @param nRanks ranks, all on this machine
 * @param cores that they share
 */
record HostCostModel(int nRanks, int cores) implements CostModel {
  private static final double LL_HOP = 0.11;
  private static final double SIMPLE_HOP = 0.14;
  private static final double LL_GIGABYTES = 2.5;
  private static final double LL128_GIGABYTES = 15;
  private static final double SIMPLE_GIGABYTES = 20;
  private static final double PEER = 0.02;

  /** Up to here a send takes LL128: its latency counts for more than its bandwidth. */
  private static final long LL_SEND_BYTES = 512;

  private static final int LEAST_CHUNK = 8 << 10;
  private static final int CHUNKS_A_PART = 4;

  @Override
  public List<Algorithm> algorithms(Operation operation) {
    return operation == Operation.ALL_REDUCE
        ? List.of(Algorithm.TREE, Algorithm.RING, Algorithm.ONE_SHOT, Algorithm.TWO_SHOT)
        : List.of(Algorithm.RING, Algorithm.ONE_SHOT);
  }

  @Override
  public List<Protocol> protocols() {
    return List.of(Protocol.LL, Protocol.LL128, Protocol.SIMPLE);
  }

  @Override
  public double microseconds(
      Operation operation, Algorithm algorithm, Protocol protocol, long bytes) {
    double hop = protocol == Protocol.SIMPLE ? SIMPLE_HOP : LL_HOP;
    double gigabytes =
        switch (protocol) {
          case LL -> LL_GIGABYTES;
          case LL128 -> LL128_GIGABYTES;
          case SIMPLE -> SIMPLE_GIGABYTES;
        };
    double sharing = Math.max(1, (double) nRanks / cores);
    double latency = StepCount.of(operation, algorithm, nRanks) * hop + (nRanks - 1) * PEER;
    double passes = passes(operation, algorithm) * bytes / (gigabytes * 1e3);
    return sharing * (latency + passes);
  }

  /** Returns how many times the busiest rank moves the whole data. */
  private double passes(Operation operation, Algorithm algorithm) {
    double others = nRanks - 1;
    double share = others / nRanks;
    return switch (operation) {
      case ALL_REDUCE ->
          switch (algorithm) {
            case RING, TWO_SHOT -> 4 * share;
            case TREE -> 5;
            case ONE_SHOT -> 2.4 * others;
            default -> throw new IllegalArgumentException(algorithm.label());
          };
      case ALL_GATHER, REDUCE_SCATTER -> algorithm == Algorithm.RING ? 2.2 * share : 2 * share;
      default -> algorithm == Algorithm.RING ? 2 : 1 + others;
    };
  }

  @Override
  public int channels(Operation operation, AlgorithmChoice choice, long bytes) {
    return 1;
  }

  /** Small enough that hops overlap, large enough that their latency does not show. */
  @Override
  public int chunkBytes(
      ConnectionLayout layout, Operation operation, AlgorithmChoice choice, long bytes) {
    if (choice.protocol() == Protocol.LL) {
      return layout.llSlotBytes() / 2;
    }
    if (choice.protocol() == Protocol.LL128) {
      return layout.ll128SlotBytes() - ConnectionLayout.WORD_STRIDE;
    }
    boolean whole = operation == Operation.BROADCAST || operation == Operation.REDUCE;
    long part = whole ? bytes : bytes / nRanks;
    long chunk = part / CHUNKS_A_PART & -LEAST_CHUNK;
    return (int) Math.max(LEAST_CHUNK, Math.min(layout.simpleSlotBytes(), chunk));
  }

  @Override
  public Protocol smallSendProtocol() {
    return Protocol.LL128;
  }

  @Override
  public long smallSendBytes(Operation operation) {
    return LL_SEND_BYTES;
  }

  @Override
  public String source() {
    return "hand-overs between cores and passes over memory, %d ranks on %d cores"
        .formatted(nRanks, cores);
  }

  @Override
  public String source(Operation operation, Algorithm algorithm, Protocol protocol) {
    return "formula, fitted on hosts";
  }
}
