package org.nccl4j.topo.tuning;

import java.util.Arrays;
import java.util.Optional;
import java.util.function.ToDoubleFunction;
import java.util.stream.Stream;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.connect.AlignedGraph;
import org.nccl4j.topo.connect.CommGraph;
import org.nccl4j.topo.system.NodeAttributes;
import org.nccl4j.topo.tuning.TunerConstants.Hardware;

/**
 * The cost of every collective with every algorithm and protocol on one communicator. Immutable and
 * safe from any thread; a query allocates nothing.
 */
public final class NcclCostModel {
  private static final int MAX_COLLNET_RANKS = 8;
  private static final int MAX_NVLS_RANKS = 32;
  private static final int PLATEAU_BYTES = 64;
  private static final int AMPERE = 80;
  private static final int BLACKWELL = 100;

  private final CommGraph comm;
  private final boolean allowsPat;
  private final LatencyModel latencies;
  private final Cost[][][] costs =
      new Cost[Operation.values().length][Algorithm.values().length][Protocol.values().length];

  private NcclCostModel(CommGraph comm, TopoSettings settings) {
    this.comm = comm;
    this.allowsPat = settings.get(TopoSettings.NCCL_PAT_ENABLE) != 0;
    BandwidthModel bandwidths = new BandwidthModel(comm);
    this.latencies = new LatencyModel(comm, settings);
    EnabledAlgorithms enabled = new EnabledAlgorithms(comm, settings);
    Stream.of(costs).flatMap(Stream::of).forEach(row -> Arrays.fill(row, Cost.NONE));
    for (Operation collective : Operation.collectives()) {
      for (Algorithm algorithm : Algorithm.ofNccl()) {
        for (Protocol protocol : Protocol.values()) {
          Cost cost = Cost.NONE;
          if (comm.shape().nRanks() > 1 && exists(collective, algorithm, protocol, settings)) {
            cost =
                new Cost(
                    latencies.of(collective, algorithm, protocol),
                    bandwidths.of(collective, algorithm, protocol));
            cost = enabled.allows(collective, algorithm, protocol) ? cost : cost.disabled();
          }
          costs[collective.ordinal()][algorithm.ordinal()][protocol.ordinal()] = cost;
        }
      }
    }
  }

  /**
   * The cost model of a communicator.
   *
   * @param comm its connections
   * @param settings NCCL_ALGO, NCCL_PROTO, NCCL_PAT_ENABLE, NCCL_NET_OVERHEAD, NCCL_LL128_C2C
   */
  public static NcclCostModel of(CommGraph comm, TopoSettings settings) {
    return new NcclCostModel(comm, settings);
  }

  private boolean exists(
      Operation collective, Algorithm algorithm, Protocol protocol, TopoSettings settings) {
    boolean simple = protocol == Protocol.SIMPLE;
    boolean forCollective =
        switch (collective) {
          case BROADCAST, REDUCE -> algorithm == Algorithm.RING;
          case ALL_GATHER, REDUCE_SCATTER ->
              algorithm == Algorithm.RING
                  || algorithm == Algorithm.NVLS
                  || algorithm == Algorithm.COLLNET_DIRECT
                  || (algorithm == Algorithm.PAT && simple && patEnabled(settings));
          case ALL_REDUCE -> algorithm != Algorithm.PAT;
          default -> false;
        };
    boolean nvlsWorks = simple && graph(comm, Algorithm.NVLS).nChannels() >= 2;
    return forCollective && (!algorithm.isNvls() || nvlsWorks);
  }

  private boolean patEnabled(TopoSettings settings) {
    int wanted = settings.get(TopoSettings.NCCL_PAT_ENABLE);
    if (comm.shape().minSm() < 60) {
      return false;
    }
    return wanted == 2 ? comm.shape().nNodes() == comm.shape().nRanks() : wanted != 0;
  }

  /** The communicator. */
  public CommGraph comm() {
    return comm;
  }

  /** True unless NCCL_PAT_ENABLE forbids PAT, also where the model has no times of it. */
  public boolean allowsPat() {
    return allowsPat;
  }

  /** Latency and bandwidth; none for what the model does not have. */
  public Cost cost(Operation collective, Algorithm algorithm, Protocol protocol) {
    return costs[collective.ordinal()][algorithm.ordinal()][protocol.ordinal()];
  }

  /** Microseconds until what one GPU of a node stores for another has arrived, flags and all. */
  public float handOver(Protocol protocol) {
    Hardware within =
        graph(comm, Algorithm.RING).typeIntra() == PathType.NVL ? Hardware.NVLINK : Hardware.PCI;
    return (float) TunerConstants.step(within, Algorithm.TREE, protocol);
  }

  /** GB/s of rings in LL, where each 4 bytes of data go beside 4 bytes of flag. */
  public double ringGigabytesInLl() {
    AlignedGraph ring = graph(comm, Algorithm.RING);
    return new BandwidthModel(comm).inLl(ring.nChannels() * ring.bwIntra());
  }

  /** The same between two GPUs of different nodes, over the network. */
  public float handOverBetweenNodes(Protocol protocol) {
    float latency = graph(comm, Algorithm.RING).latencyInter();
    return (float) TunerConstants.step(Hardware.NET, Algorithm.TREE, protocol)
        + (protocol == Protocol.SIMPLE ? 2 * latency : latency);
  }

  /**
   * Returns the share of the links' bandwidth that accesses through the switch's multicast reach.
   */
  public float nvlsEfficiency() {
    return TunerConstants.nvlsEfficiency(TunerConstants.Generation.of(comm.shape().minSm()));
  }

  /**
   * Microseconds for one operation; negative if not available.
   *
   * @param bytes the largest of what a rank sends and receives
   */
  public float time(Operation collective, Algorithm algorithm, Protocol protocol, long bytes) {
    return time(collective, algorithm, protocol, bytes, Float.POSITIVE_INFINITY);
  }

  /**
   * Microseconds for one operation whose bytes something else limits too; negative if not
   * available.
   *
   * @param bytes the largest of what a rank sends and receives
   * @param most GB/s of these bytes, such as what channels carry
   */
  public float time(
      Operation collective, Algorithm algorithm, Protocol protocol, long bytes, float most) {
    Cost cost = cost(collective, algorithm, protocol);
    if (!cost.available()) {
      return -1;
    }
    float bandwidth = cost.bandwidth() * correction(collective, algorithm, protocol, bytes);
    float latency = cost.latency();
    if (algorithm == Algorithm.RING && protocol == Protocol.SIMPLE) {
      latency = onPlateau(collective, latency, bytes);
    }
    return latency + bytes / (1000 * Math.min(bandwidth, most));
  }

  /** All-reduces of medium size in Simple over several nodes do not stick to the model. */
  private float onPlateau(Operation collective, float latency, long bytes) {
    return collective == Operation.ALL_REDUCE
            && comm.shape().nNodes() > 1
            && bytes / ((long) comm.nChannels() * comm.shape().nRanks()) >= PLATEAU_BYTES
        ? (float) (latency * (comm.shape().minSm() < AMPERE ? 1.9 : 1.4))
        : latency;
  }

  /**
   * Microseconds of a launch and of steps that follow each other, each as long as a ring's in
   * Simple: for algorithms that NCCL does not have. The time that the bytes take comes on top.
   *
   * @param within steps between GPUs of a node
   * @param between steps from node to node
   * @param bytes as of {@link #time}
   */
  public float chain(Operation collective, int within, int between, long bytes) {
    return onPlateau(collective, latencies.chain(within, between), bytes);
  }

  private float correction(
      Operation collective, Algorithm algorithm, Protocol protocol, long bytes) {
    int power = log2(bytes >> 6);
    if (collective != Operation.ALL_REDUCE || power < 0) {
      return 1;
    }
    int last = TunerConstants.corrections();
    boolean tree = algorithm == Algorithm.TREE && power < last - 1;
    boolean nvlsTree =
        algorithm == Algorithm.NVLS_TREE
            && power < last
            && comm.shape().minSm() >= BLACKWELL
            && comm.shape().arch() == NodeAttributes.Arch.X86;
    return tree || nvlsTree ? TunerConstants.treeCorrection(protocol, power) : 1;
  }

  /**
   * The cheapest way, as NCCL chooses: the least time, and of equal ones the first.
   *
   * @param bytes the largest of what a rank sends and receives
   */
  public Optional<Selection> select(Operation collective, long bytes) {
    return select(collective, bytes, algorithm -> Double.POSITIVE_INFINITY);
  }

  /**
   * The cheapest way where something else limits the bytes too.
   *
   * @param bytes the largest of what a rank sends and receives
   * @param most GB/s of these bytes with an algorithm, such as what channels carry
   */
  public Optional<Selection> select(
      Operation collective, long bytes, ToDoubleFunction<Algorithm> most) {
    Selection best = null;
    for (Algorithm algorithm : Algorithm.ofNccl()) {
      if (!usable(collective, algorithm)) {
        continue;
      }
      for (Protocol protocol : Protocol.values()) {
        float time =
            time(collective, algorithm, protocol, bytes, (float) most.applyAsDouble(algorithm));
        if (time >= 0 && (best == null || time < best.micros())) {
          best = new Selection(algorithm, protocol, time);
        }
      }
    }
    return Optional.ofNullable(best);
  }

  private boolean usable(Operation collective, Algorithm algorithm) {
    if (algorithm.isCollNet()) {
      return comm.collNet() && comm.shape().maxLocalRanks() <= MAX_COLLNET_RANKS;
    }
    if (algorithm.isNvls()) {
      boolean fits =
          collective == Operation.ALL_REDUCE || comm.shape().maxLocalRanks() <= MAX_NVLS_RANKS;
      boolean network =
          algorithm == Algorithm.NVLS_TREE || comm.shape().nNodes() == 1 || comm.collNet();
      return comm.nvls() && fits && network;
    }
    return true;
  }

  static AlignedGraph graph(CommGraph comm, Algorithm algorithm) {
    return comm.of(EnabledAlgorithms.graphOf(algorithm));
  }

  static int steps(Operation collective, int nRanks) {
    return switch (collective) {
      case ALL_REDUCE -> 2 * (nRanks - 1);
      case ALL_GATHER, REDUCE_SCATTER -> nRanks - 1;
      case BROADCAST, REDUCE -> nRanks;
      default -> throw new IllegalArgumentException(collective.label());
    };
  }

  /** Rounded down; -1 for 0. */
  static int log2(long value) {
    return Long.SIZE - 1 - Long.numberOfLeadingZeros(value);
  }
}
