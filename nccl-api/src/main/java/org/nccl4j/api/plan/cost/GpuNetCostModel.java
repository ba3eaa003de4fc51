package org.nccl4j.api.plan.cost;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.nccl4j.api.settings.ScaleSettings;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.cluster.CommTopology;
import org.nccl4j.topo.connect.AlignedGraph;
import org.nccl4j.topo.search.GraphKind;

/**
 * Costs on GPUs if some connections use a network. Between hosts with a known topology, NCCL's
 * model of it, and no more GB/s than a rank's channels carry; else a latency for each dependent
 * step, which passes slots, a proxy and the network on either side, and the bytes that are sent.
 * NCCL's model has no one-shot; it gets the model's latency of one step between nodes in LL, since
 * a message in Simple crosses the network once as well. PAT has the same latency of each step in
 * Simple. Proxies carry Simple, and LL where the network has notes and slots are in the host's
 * memory; and few channels.
 *
 * @param nRanks ranks
 * @param spread over hosts; on a single one, what is carried goes between all ranks
 * @param topology of the hosts, where it is known
 * @param tuned whether the user's table has times of such ranks; then the hierarchical way, which
 *     was not measured anywhere else, has to be in the table or to be asked for
 */
record GpuNetCostModel(
    int nRanks, RankPlacement spread, Optional<CommTopology> topology, boolean tuned)
    implements CostModel {
  /** One way, kernel to kernel. */
  private static final double FLIGHT = 35;

  /** The part that LL saves: a fence before the tail, and a load after it. */
  private static final double LINES_SAVE = 6;

  /** A proxy's work for one message. */
  private static final double MESSAGE = 4;

  private static final double LOCAL_HOP = 3;
  private static final double NETWORK_GIGABYTES = 2.5;
  private static final double LOCAL_GIGABYTES = 8;

  /** Through LL's small slots, whose lines the proxies pack and unpack. */
  private static final double LINES_GIGABYTES = 0.45;

  /** One-shot's share of the network's and channels' bandwidth: each rank combines all data. */
  private static final double ONE_SHOT_SHARE = 0.9;

  /** Ranks up to which one-shot has connections to all, and its kernels have room for them. */
  private static final int MOST_ONE_SHOT = ScaleSettings.MOST_CONNECTED_GPUS;

  /** PAT's share of the rings' bandwidth, as in NCCL's model: its messages are smaller. */
  private static final double PAT_SHARE = 0.75;

  /**
   * The hierarchical way was not measured between hosts of GPUs: it counts a third longer than
   * predicted, so it is chosen where it takes three quarters of the best other way's time at most.
   */
  static final double UNMEASURED = 4.0 / 3;

  /** Up to here LL is faster for a send. */
  private static final long LINES_SEND_BYTES = 1 << 10;

  /** Least bytes of the whole data for each channel. */
  private static final long CHANNEL_BYTES = 256 << 10;

  @Override
  public List<Algorithm> algorithms(Operation operation) {
    List<Algorithm> algorithms =
        new ArrayList<>(Algorithm.overConnections(operation, /* all= */ false));
    if (nRanks <= MOST_ONE_SHOT && Algorithm.ONE_SHOT.has(operation)) {
      algorithms.add(Algorithm.ONE_SHOT);
    }
    if (Algorithm.PAT.has(operation) && allowsPat() && patChunk() > 0) {
      algorithms.add(Algorithm.PAT);
    }
    if (Algorithm.HIERARCHICAL.has(operation) && spread.isGrid()) {
      algorithms.add(Algorithm.HIERARCHICAL);
    }
    return algorithms;
  }

  @Override
  public String lacks(Operation operation) {
    return spread.lacksGrid(operation);
  }

  private boolean allowsPat() {
    return !goesByTopology() || topology.orElseThrow().costs().allowsPat();
  }

  private int patChunk() {
    return RankPlacement.patChunk(nRanks, spread.mostRanks(), spread.late());
  }

  /**
   * Chunks follow each other a step apart, or with more distances than slots of a connection one
   * after the other. With one rank on each node, NCCL's model has the time of the first chunk.
   */
  private double pat(Operation operation, long bytes) {
    double steps = NetCostModel.levels(nRanks);
    AlgorithmChoice choice = new AlgorithmChoice(Algorithm.PAT, Protocol.SIMPLE, 0);
    long more = bytes / nRanks / channels(operation, choice, bytes) / patChunk();
    double waiting = more * (steps < ConnectionLayout.STEPS ? 1 : steps);
    double sent = (spread.hosts() == 1 ? 1 : spread.sentByPat()) * bytes;
    if (!goesByTopology()) {
      return GpuCostModel.LAUNCH
          + (steps + waiting) * (FLIGHT + MESSAGE)
          + sent / (PAT_SHARE * NETWORK_GIGABYTES * 1e3)
          + sent / (LOCAL_GIGABYTES * 1e3);
    }
    CommTopology known = topology.orElseThrow();
    NcclCosts nccl = new NcclCosts(known);
    double step = nccl.handOverBetweenNodes(Protocol.SIMPLE) + MESSAGE;
    double first =
        nccl.microseconds(
            operation,
            Algorithm.PAT,
            Protocol.SIMPLE,
            bytes,
            ofChannels().most(operation, Algorithm.PAT));
    if (spread.mostRanks() == 1 && Double.isFinite(first)) {
      return first + waiting * step;
    }
    AlignedGraph ring = known.comm().of(GraphKind.RING);
    double gigabytes = ring.nChannels() * (double) ring.bwInter();
    return GpuCostModel.LAUNCH
        + (steps + waiting) * step
        + Math.max(
            sent / (PAT_SHARE * gigabytes * 1e3), throughChannels(operation, Algorithm.PAT, bytes));
  }

  private ChannelBandwidth ofChannels() {
    return ChannelBandwidth.of(nRanks, spread);
  }

  /** Microseconds of what a rank gives out through its channels. */
  private double throughChannels(Operation operation, Algorithm algorithm, long bytes) {
    return bytes / (ofChannels().most(operation, algorithm) * 1e3);
  }

  /**
   * Each host's data go round the ranks of a host while those of the host before are on the way
   * along the rail: the longer of both counts, and at the end the way round the host. Where the
   * topology is known, a step takes as long as a ring's, and the rails of a host together have the
   * rings' bandwidth between hosts: channels take turns with all cards of a rank. A rank takes in
   * and gives out as much as in a ring, through as many channels.
   */
  private double hierarchical(Operation operation, long bytes) {
    int turns = operation == Operation.ALL_REDUCE ? 2 : 1;
    int flights = turns * (spread.hosts() - 1);
    int hops = turns * (spread.mostRanks() - 1);
    double sent = spread.sentByHierarchical(operation) * bytes;
    double moved = (double) turns * (nRanks - 1) / nRanks * bytes;
    if (!goesByTopology()) {
      double latency =
          Math.max(
              flights * (FLIGHT + MESSAGE) + hops * LOCAL_HOP, spread.hosts() * hops * LOCAL_HOP);
      return GpuCostModel.LAUNCH
          + latency
          + sent / (NETWORK_GIGABYTES * 1e3)
          + moved / (LOCAL_GIGABYTES * 1e3);
    }
    CommTopology known = topology.orElseThrow();
    NcclCosts nccl = new NcclCosts(known);
    double latency =
        Math.max(
            nccl.chain(operation, hops, flights, bytes),
            nccl.chain(operation, spread.hosts() * hops, 0, bytes));
    AlignedGraph ring = known.comm().of(GraphKind.RING);
    double network = ring.nChannels() * (double) ring.bwInter();
    double local =
        Math.min(known.neighbourGigabytes(), ofChannels().gigabytes(Algorithm.HIERARCHICAL));
    return latency + Math.max(sent / (network * 1e3), moved / (local * 1e3));
  }

  @Override
  public boolean has(Algorithm algorithm, Protocol protocol) {
    return algorithm.has(protocol);
  }

  @Override
  public List<Protocol> protocols() {
    return spread.lines() ? List.of(Protocol.LL, Protocol.SIMPLE) : List.of(Protocol.SIMPLE);
  }

  @Override
  public double microseconds(
      Operation operation, Algorithm algorithm, Protocol protocol, long bytes) {
    if (algorithm == Algorithm.ONE_SHOT) {
      return oneShot(operation, protocol, bytes);
    }
    if (algorithm == Algorithm.PAT) {
      return pat(operation, bytes);
    }
    if (algorithm == Algorithm.HIERARCHICAL) {
      double predicted = UNMEASURED * hierarchical(operation, bytes);
      return tuned ? ONLY_WHERE_ASKED + predicted : predicted;
    }
    double sent = sent(operation, algorithm) * bytes;
    if (goesByTopology()) {
      double packing = protocol == Protocol.LL ? sent / (LINES_GIGABYTES * 1e3) : 0;
      return packing
          + new NcclCosts(topology.orElseThrow())
              .microseconds(
                  operation, algorithm, protocol, bytes, ofChannels().most(operation, algorithm));
    }
    return GpuCostModel.LAUNCH
        + latency(operation, algorithm, protocol)
        + sent / (gigabytes(protocol) * 1e3)
        + ofChannels().moved(operation, algorithm) * bytes / (LOCAL_GIGABYTES * 1e3);
  }

  private double oneShot(Operation operation, Protocol protocol, long bytes) {
    int most = spread.hosts() == 1 ? 1 : spread.mostRanks();
    double sent = NetCostModel.oneShotSent(operation, nRanks, most) * bytes;
    double fixed = GpuCostModel.LAUNCH + (nRanks - 1) * MESSAGE;
    if (!goesByTopology()) {
      return fixed
          + flight(protocol)
          + sent / (ONE_SHOT_SHARE * gigabytes(protocol) * 1e3)
          + sent / (LOCAL_GIGABYTES * 1e3);
    }
    CommTopology known = topology.orElseThrow();
    AlignedGraph ring = known.comm().of(GraphKind.RING);
    double network = ring.nChannels() * (double) ring.bwInter();
    double gigabytes = protocol == Protocol.LL ? Math.min(LINES_GIGABYTES, network / 2) : network;
    return fixed
        + new NcclCosts(known).handOverBetweenNodes(Protocol.LL)
        + (protocol == Protocol.LL ? 0 : LINES_SAVE)
        + Math.max(sent / (gigabytes * 1e3), throughChannels(operation, Algorithm.ONE_SHOT, bytes))
            / ONE_SHOT_SHARE;
  }

  private static double flight(Protocol protocol) {
    return protocol == Protocol.LL ? FLIGHT - LINES_SAVE : FLIGHT;
  }

  private static double gigabytes(Protocol protocol) {
    return protocol == Protocol.LL ? LINES_GIGABYTES : NETWORK_GIGABYTES;
  }

  /** A single host's topology has links that are not used. */
  private boolean goesByTopology() {
    return spread.hosts() > 1 && topology.isPresent();
  }

  /** Hosts, or what stands for them: ranks that reach each other over the network alone. */
  private int ends() {
    return spread.hosts() == 1 ? nRanks : spread.hosts();
  }

  private double latency(Operation operation, Algorithm algorithm, Protocol protocol) {
    double flight = flight(protocol);
    int turns = operation == Operation.ALL_REDUCE ? 2 : 1;
    int within = nRanks / ends();
    return switch (algorithm) {
      case TREE -> {
        double between =
            operation.isRooted()
                ? Algorithm.TREE.steps(operation, ends())
                : 2 * NetCostModel.levels(ends());
        yield between * flight + 2 * (within - 1) * LOCAL_HOP;
      }
      default -> turns * (ends() * flight + (nRanks - ends()) * LOCAL_HOP);
    };
  }

  /** Ups and downs of trees of one rank of each host, and what a host sends of a whole in them. */
  static double treeMicroseconds(int hosts, long bytes) {
    return 2 * NetCostModel.levels(hosts) * FLIGHT
        + NetCostModel.treeSent(Operation.ALL_REDUCE, hosts) * bytes / (NETWORK_GIGABYTES * 1e3);
  }

  /** Returns how many times the busiest host sends the whole data in a ring or in trees. */
  private double sent(Operation operation, Algorithm algorithm) {
    return algorithm == Algorithm.TREE
        ? NetCostModel.treeSent(operation, ends())
        : Algorithm.RING.sent(operation, nRanks);
  }

  @Override
  public int channels(Operation operation, AlgorithmChoice choice, long bytes) {
    return (int) Math.max(1, Math.min(spread.channels(choice.algorithm()), bytes / CHANNEL_BYTES));
  }

  /** Whole slots. */
  @Override
  public int chunkBytes(
      ConnectionLayout layout, Operation operation, AlgorithmChoice choice, long bytes) {
    return Integer.MAX_VALUE;
  }

  @Override
  public long smallSendBytes(Operation operation) {
    return spread.lines() ? LINES_SEND_BYTES : -1;
  }

  @Override
  public double linkGigabytes() {
    if (!goesByTopology()) {
      return NETWORK_GIGABYTES;
    }
    AlignedGraph ring = topology.orElseThrow().comm().of(GraphKind.RING);
    return ring.nChannels() * (double) ring.bwInter();
  }

  @Override
  public String source() {
    return "%s, %d GPUs on %d hosts over a network, %d channels%s%s"
        .formatted(
            goesByTopology() ? "NCCL's model" : "formula of latency and bandwidth",
            nRanks,
            spread.hosts(),
            spread.channels(),
            spread.pairChannels() == spread.channels()
                ? ""
                : ", %d between ranks that are no neighbours".formatted(spread.pairChannels()),
            spread.lines() ? "" : " with Simple only");
  }

  @Override
  public String source(Operation operation, Algorithm algorithm, Protocol protocol) {
    if (algorithm == Algorithm.HIERARCHICAL) {
      return (goesByTopology() ? "topology, a ring's steps" : "formula with estimated constants")
          + ", a third added as it is not measured between hosts";
    }
    return !goesByTopology()
        ? "formula with estimated constants"
        : algorithm == Algorithm.ONE_SHOT || algorithm == Algorithm.PAT
            ? "topology, one latency of NCCL's tables"
            : "topology, NCCL's tables";
  }
}
