package org.nccl4j.api.plan.cost;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Costs on GPUs without a table or a known topology, such as ranks that share a GPU: a launch, a
 * latency for each dependent step, and the busiest rank's bytes at a protocol's bandwidth. The
 * constants are fitted to H200 over NVLink.
 *
 * @param nRanks ranks
 * @param reach whether every rank loads and stores every other's memory
 * @param nvlink whether over NVLink
 */
record GpuCostModel(int nRanks, boolean reach, boolean nvlink) implements CostModel {
  private static final int CHANNELS = ConnectionLayout.CHANNELS;

  /** Ranks up to which the kernels of the direct algorithms have room for their peers. */
  private static final int MOST_DIRECT = 33;

  /** Until a kernel runs and has ended, without hand-overs. */
  static final double LAUNCH = 4.5;

  private static final int LEAST_CHUNK = 2 << 10;
  private static final int GATHER_CHUNKS = 4;
  private static final long LL_SEND_BYTES = 128 << 10;

  /** Microseconds that a hand-over takes longer in Simple than in LL over PCIe, in NCCL's model. */
  private static final double PCIE_SAVED_MICROS = 3;

  /** GB/s of PCIe 3.0, where it is not known what there is. */
  private static final double PCIE_GIGABYTES = 12;

  /** Of two ranks, whose slots are twice as large: on H200 LL128 is faster from 512 KiB on. */
  private static final long LL_SEND_BYTES_OF_TWO = 256 << 10;

  /** From here on what Simple waits for counts for less than the bandwidth of LL128. */
  private static final long LINE_SEND_BYTES = 12 << 20;

  /** GB/s that the links of H200 carry one way. */
  private static final double NVLINK_GIGABYTES = 361;

  /** The origin of the times of messages over NVLink. */
  static final String MESSAGES = "messages over NVLink, fitted on H200";

  /** Limit on the bytes of all LL sends of a rank together, in an all-to-all. */
  private static final long LL_EXCHANGE_BYTES = 384 << 10;

  @Override
  public List<Algorithm> algorithms(Operation operation) {
    List<Algorithm> algorithms =
        new ArrayList<>(Algorithm.overConnections(operation, reach && nRanks <= MOST_DIRECT));
    if (Algorithm.PAT.has(operation) && CudaDevice.patPiece(nRanks, nRanks) > 0) {
      algorithms.add(Algorithm.PAT);
    }
    return algorithms;
  }

  @Override
  public List<Protocol> protocols() {
    return nvlink
        ? List.of(Protocol.LL, Protocol.LL128, Protocol.SIMPLE)
        : List.of(Protocol.LL, Protocol.SIMPLE);
  }

  @Override
  public double microseconds(
      Operation operation, Algorithm algorithm, Protocol protocol, long bytes) {
    double hop = protocol == Protocol.SIMPLE ? 3 : 1.3;
    double gigabytes =
        switch (protocol) {
          case LL -> 90;
          case LL128 -> 170;
          case SIMPLE -> algorithm == Algorithm.TREE ? 150 : 335;
        };
    double flights = LAUNCH + algorithm.steps(operation, nRanks) * hop;
    return flights + algorithm.sent(operation, nRanks) * bytes / (gigabytes * 1e3);
  }

  /** Over NVLink as fitted on H200. */
  @Override
  public double messages(int ranks, int others, Protocol protocol, long bytes) {
    return nvlink
        ? messagesOverNvlink(protocol, (double) others * bytes, NVLINK_GIGABYTES)
        : CostModel.super.messages(ranks, others, protocol, bytes);
  }

  /**
   * Microseconds of a kernel that sends messages to all others at once, fitted on sends between 2
   * H200: docs/benchmarks/h200-x2.md.
   *
   * @param bytes of all that a rank sends
   * @param gigabytes GB/s that the links of a GPU carry
   */
  static double messagesOverNvlink(Protocol protocol, double bytes, double gigabytes) {
    return switch (protocol) {
      case LL -> 4 + bytes / (0.24 * gigabytes * 1e3);
      case LL128 -> 6.5 + bytes / (0.83 * gigabytes * 1e3);
      case SIMPLE -> 14.5 + bytes / (gigabytes * 1e3);
    };
  }

  @Override
  public String messageSource(Protocol protocol) {
    return nvlink ? MESSAGES : CostModel.super.messageSource(protocol);
  }

  @Override
  public int channels(Operation operation, AlgorithmChoice choice, long bytes) {
    return CHANNELS;
  }

  /** Whole slots, but in direct all-gathers smaller steps: copying out overlaps arriving. */
  @Override
  public int chunkBytes(
      ConnectionLayout layout, Operation operation, AlgorithmChoice choice, long bytes) {
    if (nRanks > 2
        && operation == Operation.ALL_GATHER
        && choice.algorithm() == Algorithm.ONE_SHOT
        && choice.protocol() == Protocol.SIMPLE) {
      long chunk = bytes / nRanks / CHANNELS / GATHER_CHUNKS & -LEAST_CHUNK;
      return (int) Math.max(LEAST_CHUNK, Math.min(Integer.MAX_VALUE / 2, chunk));
    }
    return Integer.MAX_VALUE;
  }

  @Override
  public long smallSendBytes(Operation operation) {
    return nvlink
        ? mostInLl(operation)
        : smallSendBytes(operation, PCIE_SAVED_MICROS, PCIE_GIGABYTES);
  }

  private long mostInLl(Operation operation) {
    return operation == Operation.ALL_TO_ALL
        ? LL_EXCHANGE_BYTES / others()
        : nvlink && nRanks == 2 ? LL_SEND_BYTES_OF_TWO : LL_SEND_BYTES;
  }

  /**
   * As {@link #smallSendBytes(Operation)}, over links that take no longer for the flags of LL, as
   * many bytes as the data, than a hand-over in Simple takes longer. The messages of an exchange
   * share the links of a GPU.
   *
   * @param saved microseconds that a hand-over takes longer in Simple
   * @param gigabytes GB/s of the links
   */
  long smallSendBytes(Operation operation, double saved, double gigabytes) {
    int sharing = operation == Operation.ALL_TO_ALL ? others() : 1;
    return Math.min(mostInLl(operation), (long) (saved * gigabytes * 1e3 / sharing));
  }

  private int others() {
    return Math.max(1, nRanks - 1);
  }

  @Override
  public long lineSendBytes(Operation operation) {
    if (!nvlink) {
      return -1;
    }
    return operation == Operation.ALL_TO_ALL ? LINE_SEND_BYTES / others() : LINE_SEND_BYTES;
  }

  @Override
  public String source() {
    return "formula of launch, latency and bandwidth, %d GPUs%s"
        .formatted(nRanks, nvlink ? " over NVLink" : reach ? " without NVLink" : "");
  }

  @Override
  public String source(Operation operation, Algorithm algorithm, Protocol protocol) {
    return "formula, fitted on H200";
  }
}
