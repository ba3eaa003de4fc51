package org.nccl4j.api.plan;

import java.util.List;
import java.util.Optional;
import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.cluster.CommTopology;

/**
 * Costs on GPUs where some connections go over a network. Between hosts whose topology is known,
 * NCCL's model of it; else a flight for each dependent step, which passes slots, a proxy and the
 * network on either side, and the bytes that are sent. Proxies carry Simple's slots alone, on few
 * channels.
 *
 * @param nRanks ranks
 * @param spread over hosts; on a single one, what is carried goes between all ranks
 * @param topology of the hosts, where it is known
 */
record GpuNetCostModel(int nRanks, RankPlacement spread, Optional<CommTopology> topology)
    implements CostModel {
  /** One way, kernel to kernel. */
  private static final double FLIGHT = 35;

  private static final double LOCAL_HOP = 3;
  private static final double NETWORK_GIGABYTES = 2.5;
  private static final double LOCAL_GIGABYTES = 8;

  /** Least bytes of the whole data for each channel. */
  private static final long CHANNEL_BYTES = 256 << 10;

  @Override
  public List<Algorithm> algorithms(Operation operation) {
    return Algorithm.overConnections(operation, /* all= */ false);
  }

  @Override
  public List<Protocol> protocols() {
    return List.of(Protocol.SIMPLE);
  }

  @Override
  public double microseconds(
      Operation operation, Algorithm algorithm, Protocol protocol, long bytes) {
    if (goesByTopology()) {
      GpuCostModel kernels = new GpuCostModel(nRanks, /* reach= */ false, /* nvlink= */ false);
      return new TopologyCostModel(topology.orElseThrow(), kernels)
          .microseconds(operation, algorithm, protocol, bytes);
    }
    double passes = passes(operation, algorithm);
    return GpuCostModel.LAUNCH
        + latency(operation, algorithm)
        + passes * bytes / (NETWORK_GIGABYTES * 1e3)
        + passes * bytes / (LOCAL_GIGABYTES * 1e3);
  }

  /** A single host's topology has links that are not used. */
  private boolean goesByTopology() {
    return spread.hosts() > 1 && topology.isPresent();
  }

  /** Hosts, or what stands for them: ranks that reach each other over the network alone. */
  private int ends() {
    return spread.hosts() == 1 ? nRanks : spread.hosts();
  }

  private double latency(Operation operation, Algorithm algorithm) {
    int turns = operation == Operation.ALL_REDUCE ? 2 : 1;
    int within = nRanks / ends();
    return algorithm == Algorithm.TREE
        ? turns * (NetCostModel.levels(ends()) * FLIGHT + (within - 1) * LOCAL_HOP)
        : turns * (ends() * FLIGHT + (nRanks - ends()) * LOCAL_HOP);
  }

  /** Ups and downs of trees of one rank of each host, and what a host sends of a whole in them. */
  static double treeMicroseconds(int hosts, long bytes) {
    return 2 * NetCostModel.levels(hosts) * FLIGHT + 2 * bytes / (NETWORK_GIGABYTES * 1e3);
  }

  /** Returns how many times a host sends the whole data. */
  private double passes(Operation operation, Algorithm algorithm) {
    double share = (double) (nRanks - 1) / nRanks;
    return switch (operation) {
      case ALL_REDUCE -> algorithm == Algorithm.TREE ? 2 : 2 * share;
      case ALL_GATHER, REDUCE_SCATTER -> share;
      default -> 1;
    };
  }

  @Override
  public int channels(Operation operation, AlgorithmChoice choice, long bytes) {
    return (int) Math.max(1, Math.min(spread.channels(), bytes / CHANNEL_BYTES));
  }

  /** Whole slots. */
  @Override
  public int chunkBytes(
      ConnectionLayout layout, Operation operation, AlgorithmChoice choice, long bytes) {
    return Integer.MAX_VALUE;
  }

  /** All in Simple. */
  @Override
  public long smallSendBytes(Operation operation) {
    return -1;
  }

  @Override
  public String source() {
    return "%s of %d GPUs on %d hosts, through a network, %d channels"
        .formatted(
            goesByTopology() ? "NCCL's model" : "flights and bytes",
            nRanks,
            spread.hosts(),
            spread.channels());
  }

  @Override
  public String source(Operation operation, Algorithm algorithm, Protocol protocol) {
    return goesByTopology() ? "topology, NCCL's tables" : "formula, its constants estimated";
  }
}
