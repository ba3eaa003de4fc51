package org.nccl4j.api.plan.cost;

import java.util.List;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.cluster.CommTopology;
import org.nccl4j.topo.connect.AlignedGraph;
import org.nccl4j.topo.search.GraphKind;

/**
 * Costs on GPUs with a known topology: rings and trees with NCCL's cost model. NCCL's model has no
 * one-shot and two-shot; their cost is a launch, the model's latency for each step, and a share of
 * the bandwidth that it finds for rings.
 *
 * @param topology the GPUs, searched and connected
 * @param kernels what the device's kernels can do
 */
record TopologyCostModel(CommTopology topology, GpuCostModel kernels) implements CostModel {
  /**
   * LL's share of the rings' bandwidth over NVLink, as measured on H200:
   * docs/benchmarks/h200-kernels.md. Over slower links flags take half.
   */
  private static final double LL_SHARE = 0.24;

  private static final double LL128_SHARE = 0.46;
  private static final double SIMPLE_SHARE = 0.9;

  @Override
  public List<Algorithm> algorithms(Operation operation) {
    return kernels.algorithms(operation).stream()
        .filter(algorithm -> algorithm != Algorithm.PAT || topology.costs().allowsPat())
        .toList();
  }

  @Override
  public List<Protocol> protocols() {
    return kernels.protocols();
  }

  /** LL128 only where the model says that 128 bytes arrive whole. */
  @Override
  public boolean has(Algorithm algorithm, Protocol protocol) {
    return algorithm.has(protocol)
        && (protocol != Protocol.LL128 || nccl().has(algorithm, protocol));
  }

  @Override
  public double microseconds(
      Operation operation, Algorithm algorithm, Protocol protocol, long bytes) {
    return isNccls(algorithm)
        ? nccl().microseconds(operation, algorithm, protocol, bytes)
        : direct(operation, algorithm, protocol, bytes);
  }

  /** NCCL's model has no messages; its rings wait longer for their first step than these do. */
  @Override
  public double messages(int nRanks, int others, Protocol protocol, long bytes) {
    return kernels.nvlink()
        ? GpuCostModel.messagesOverNvlink(protocol, (double) others * bytes, bandwidth())
        : CostModel.super.messages(nRanks, others, protocol, bytes);
  }

  @Override
  public String messageSource(Protocol protocol) {
    return kernels.nvlink() ? GpuCostModel.MESSAGES : CostModel.super.messageSource(protocol);
  }

  /** NCCL's model has PAT only with one rank on each node. */
  private boolean isNccls(Algorithm algorithm) {
    return nccl().has(algorithm) && algorithm != Algorithm.PAT;
  }

  private NcclCosts nccl() {
    return new NcclCosts(topology);
  }

  /** A flag beside the data or behind it: LL arrives as fast as LL128. */
  private double direct(Operation operation, Algorithm algorithm, Protocol protocol, long bytes) {
    Protocol flight = protocol == Protocol.SIMPLE ? protocol : Protocol.LL128;
    double gigabytes =
        switch (protocol) {
          case LL ->
              kernels.nvlink() ? LL_SHARE * bandwidth() : topology.costs().ringGigabytesInLl();
          case LL128 -> LL128_SHARE * bandwidth();
          case SIMPLE -> SIMPLE_SHARE * bandwidth();
        };
    return GpuCostModel.LAUNCH
        + algorithm.steps(operation, kernels.nRanks()) * nccl().handOver(flight)
        + algorithm.sent(operation, kernels.nRanks()) * crossing() * bytes / (gigabytes * 1e3);
  }

  /** GB/s of all rings together: what a GPU sends to its peers. */
  @Override
  public double bandwidth() {
    AlignedGraph ring = topology.comm().of(GraphKind.RING);
    return ring.nChannels() * (double) ring.bwIntra();
  }

  /**
   * Returns how much slower an all-to-all is than a ring of the same bytes for each rank. Between
   * NUMA nodes a ring sends one rank's data. An all-to-all sends the data of half the ranks to the
   * other half.
   */
  private double crossing() {
    double n = kernels.nRanks();
    boolean numa = topology.comm().of(GraphKind.RING).typeIntra() == PathType.SYS;
    return numa ? Math.max(1, n * n / 4 / (n - 1)) : 1;
  }

  /**
   * Returns the number of channels that carry the rings' bandwidth, but at least the model's own
   * number. For small data the model asks for fewer.
   */
  @Override
  public int channels(Operation operation, AlgorithmChoice choice, long bytes) {
    int searched = topology.comm().nChannels();
    double most =
        Math.min(
            ConnectionLayout.CHANNELS, Math.max(searched, bandwidth() / ChannelBandwidth.OF_ONE));
    int asked = nccl().channels(choice.algorithm(), choice.protocol(), bytes);
    return (int) Math.max(1, Math.ceil(most * asked / searched));
  }

  @Override
  public int chunkBytes(
      ConnectionLayout layout, Operation operation, AlgorithmChoice choice, long bytes) {
    return kernels.chunkBytes(layout, operation, choice, bytes);
  }

  @Override
  public long smallSendBytes(Operation operation) {
    double pair = topology.leastPairGigabytes();
    if (kernels.nvlink() || Double.isInfinite(pair)) {
      return kernels.smallSendBytes(operation);
    }
    double saved = nccl().handOver(Protocol.SIMPLE) - nccl().handOver(Protocol.LL);
    return kernels.smallSendBytes(
        operation, saved, operation == Operation.ALL_TO_ALL ? pair / crossing() : pair);
  }

  @Override
  public long lineSendBytes(Operation operation) {
    return has(Algorithm.RING, Protocol.LL128) ? kernels.lineSendBytes(operation) : -1;
  }

  @Override
  public String source() {
    AlignedGraph ring = topology.comm().of(GraphKind.RING);
    return "NCCL's model on the topology: %d GPUs on %d nodes, %d rings of %s GB/s over %s"
        .formatted(
            kernels.nRanks(),
            topology.comm().shape().nNodes(),
            ring.nChannels(),
            ring.bwIntra(),
            ring.typeIntra());
  }

  @Override
  public String source(Operation operation, Algorithm algorithm, Protocol protocol) {
    return isNccls(algorithm)
        ? "topology, NCCL's tables"
        : "topology, share of the rings' bandwidth";
  }
}
