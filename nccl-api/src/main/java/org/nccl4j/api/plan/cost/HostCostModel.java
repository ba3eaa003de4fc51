package org.nccl4j.api.plan.cost;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.SingleCopy;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Costs on the host device: a latency between cores for each dependent step, and the memory
 * bandwidth for each byte that a rank moves. If ranks outnumber cores, they share both.
 *
 * @param nRanks ranks, all on this machine
 * @param cores that they share
 */
record HostCostModel(int nRanks, int cores) implements CostModel {
  private static final double HOP = 0.11;

  /** Added microseconds of a hand-over where ranks share cores: another rank has the core. */
  private static final double SWITCH = 1;

  /**
   * Added microseconds of a hand-over by Simple: its tail and its data come one after the other.
   */
  private static final double TAIL = 0.03;

  private static final double LL_GIGABYTES = 2.5;
  private static final double LL128_GIGABYTES = 15;
  private static final double SIMPLE_GIGABYTES = 20;

  /** Simple's rate where receivers read the sender's buffer: one copy instead of two. */
  static final double SINGLE_COPY_GIGABYTES = 40;

  /** One message of the busiest rank beside the chain of hand-overs. */
  private static final double PEER = 0.04;

  /** The same three in calls whose ranks wait for each other, where {@link #crosses} says so. */
  private static final double FAR_HOP = 0.5;

  private static final double FAR_TAIL = 0.2;
  private static final double FAR_PEER = 0.3;

  /** One message of a rank, in calls that do not wait for each other. */
  private static final double MESSAGE = 0.12;

  /** A step of a reduce-scatter by halving has an element of each rank at least. */
  private static final int MOST_DOUBLING = 512;

  /**
   * Among more ranks a straight all-gather or a reduce-scatter by halving sends many small parts.
   */
  private static final int FEW_RANKS = 8;

  /** A slot has a piece of each of half of the ranks. */
  private static final int MOST_PAT = 1024;

  /** Up to here a send takes LL128: its latency counts for more than its bandwidth. */
  private static final long LL_SEND_BYTES = 512;

  /** Up to here a core's own cache keeps what an all-reduce by one-shot reads of other ranks. */
  private static final long CACHED_BYTES = 256 << 10;

  private static final int LEAST_CHUNK = 16 << 10;
  private static final int CHUNKS_A_PART = 4;

  @Override
  public List<Algorithm> algorithms(Operation operation) {
    List<Algorithm> algorithms =
        new ArrayList<>(Algorithm.overConnections(operation, /* all= */ true));
    if (Algorithm.DOUBLING.has(operation) && nRanks <= MOST_DOUBLING) {
      algorithms.add(Algorithm.DOUBLING);
    }
    if (Algorithm.PAT.has(operation) && nRanks <= MOST_PAT) {
      algorithms.add(Algorithm.PAT);
    }
    return algorithms;
  }

  /** The messages of many ranks' small parts are few where they are put together. */
  @Override
  public boolean suitsOneHost(Operation operation, Algorithm algorithm) {
    boolean together = algorithm == Algorithm.PAT && operation == Operation.ALL_GATHER;
    return !algorithm.isBetweenHosts(operation)
        || together && nRanks > FEW_RANKS && crosses(nRanks, cores);
  }

  @Override
  public List<Protocol> protocols() {
    return List.of(Protocol.LL, Protocol.LL128, Protocol.SIMPLE);
  }

  @Override
  public double microseconds(
      Operation operation, Algorithm algorithm, Protocol protocol, long bytes) {
    double gigabytes =
        switch (protocol) {
          case LL -> LL_GIGABYTES;
          case LL128 -> LL128_GIGABYTES;
          case SIMPLE ->
              isRead(operation, algorithm, bytes) ? SINGLE_COPY_GIGABYTES : SIMPLE_GIGABYTES;
        };
    double sharing = Math.max(1, (double) nRanks / cores);
    double tail = protocol != Protocol.SIMPLE ? 0 : isFar(operation) ? FAR_TAIL : TAIL;
    double tails = algorithm.steps(operation, nRanks) * tail;
    double latency = latency(operation, algorithm) + tails;
    double passes = passes(operation, algorithm, bytes) * bytes / (gigabytes * 1e3);
    return sharing * (latency + passes);
  }

  /**
   * Calls with a root do not wait for each other, since a rank that has sent goes on. A call that
   * is alone takes its chain of hand-overs; where many follow each other, each takes the busiest
   * rank's messages, one after the other. The mean of both counts.
   */
  private double latency(Operation operation, Algorithm algorithm) {
    double steps = algorithm.steps(operation, nRanks);
    boolean far = isFar(operation);
    double chain = steps * ((far ? FAR_HOP : HOP) + switching(nRanks, cores));
    return operation.isRooted()
        ? (chain + algorithm.messages(operation, nRanks) * MESSAGE) / 2
        : chain
            + Math.max(0, algorithm.messages(operation, nRanks) - steps) * (far ? FAR_PEER : PEER);
  }

  private boolean isFar(Operation operation) {
    return crosses(nRanks, cores) && !operation.isRooted();
  }

  /** True of more than two ranks with cores of their own: their lines cross the processor. */
  static boolean crosses(int nRanks, int cores) {
    return nRanks > 2 && nRanks <= cores;
  }

  /** Added microseconds of each wait for ranks that need cores which others have. */
  static double switching(int nRanks, int cores) {
    return nRanks > cores ? SWITCH : 0;
  }

  /**
   * Returns how many times the busiest rank moves the whole data: twice for what it sends, but for
   * what was measured otherwise.
   */
  private double passes(Operation operation, Algorithm algorithm, long bytes) {
    boolean parts = operation == Operation.ALL_GATHER || operation == Operation.REDUCE_SCATTER;
    double sent = algorithm.sent(operation, nRanks);
    return switch (algorithm) {
      case RING -> parts ? 2.2 * sent : 2 * sent;
      case TREE -> 5;
      case DOUBLING -> {
        double part = nRanks > FEW_RANKS ? 3.7 * sent : 2.6 * sent;
        yield operation.isRooted() ? 1 + sent : parts ? part : 2.4 * sent;
      }
      case ONE_SHOT -> {
        if (operation == Operation.ALL_REDUCE) {
          boolean cached = isRead(operation, algorithm, bytes) && bytes <= CACHED_BYTES;
          yield cached ? 2 * sent : 2.4 * sent;
        }
        yield parts ? 2 * sent : 1 + sent;
      }
      default -> 2 * sent;
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
    if (choice.algorithm() == Algorithm.PAT) {
      return layout.simpleSlotBytes();
    }
    long chunk = part(operation, bytes) / CHUNKS_A_PART & -LEAST_CHUNK;
    return (int) Math.max(LEAST_CHUNK, Math.min(layout.simpleSlotBytes(), chunk));
  }

  /**
   * True if receivers read the data by Simple from the sender's buffer. A reduce-scatter by halving
   * sends sums that lie in scratch memory, and PAT puts parts together in slots.
   */
  private boolean isRead(Operation operation, Algorithm algorithm, long bytes) {
    boolean halves = algorithm == Algorithm.DOUBLING && operation == Operation.REDUCE_SCATTER;
    return !halves
        && algorithm != Algorithm.PAT
        && part(operation, bytes) >= SingleCopy.LEAST_BYTES;
  }

  /** Bytes that one rank sends to another before the other can go on. */
  private long part(Operation operation, long bytes) {
    boolean whole = operation == Operation.BROADCAST || operation == Operation.REDUCE;
    return whole ? bytes : bytes / nRanks;
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
    return "formula of latency between cores and memory bandwidth, %d ranks on %d cores"
        .formatted(nRanks, cores);
  }

  @Override
  public String source(Operation operation, Algorithm algorithm, Protocol protocol) {
    return "formula, fitted on hosts";
  }
}
