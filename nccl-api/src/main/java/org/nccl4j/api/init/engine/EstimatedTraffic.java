package org.nccl4j.api.init.engine;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SortedMap;
import java.util.function.Supplier;
import org.nccl4j.api.observe.flight.FlightRecorder;
import org.nccl4j.api.observe.flight.Link;
import org.nccl4j.api.observe.flight.RankReport.Replays;
import org.nccl4j.api.plan.PlannedAlgorithms;
import org.nccl4j.api.plan.RankTraffic;
import org.nccl4j.api.spi.Failovers;
import org.nccl4j.api.spi.LinkStatus;
import org.nccl4j.device.DataType;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.CapturedLaunches;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/**
 * A rank's links with estimates for those that nobody counts: what GPUs send each other within a
 * machine. The estimates follow from the operations that have ended and from the launches of
 * graphs, so an operation does no more for them. Owned by the thread that holds the observer's
 * look.
 */
final class EstimatedTraffic implements Supplier<List<? extends Link>> {
  /** Transport of what goes through an NVSwitch that combines or spreads data. */
  static final String SWITCH = "NVLS";

  /** Rank of such data, which go to several. */
  private static final int SEVERAL = -1;

  private static final int MOST_KNOWN = 256;

  private final Supplier<List<? extends Link>> counted;
  private final FlightRecorder log;
  private final PlannedAlgorithms planned;
  private final RankTraffic traffic;
  private final KernelCommunicator kernels;
  private final int nRanks;
  private final List<Estimate> links = new ArrayList<>();
  private final Map<Call, RankTraffic.Bytes> known = new HashMap<>();

  /** Operations that the sums have, and the bytes to each rank, to the switch and from it. */
  private long seen;

  private final double[] sums;

  /** Operations that graphs have repeated, their bytes, and these times the bus factor. */
  private final double[] repeated = new double[3];

  private final Map<CapturedLaunches, Graph> graphs = new IdentityHashMap<>();

  private record Call(long shape, long count) {}

  /**
   * A rank's links.
   *
   * @param counted links of connections, whose bytes are counted if a network carries them
   * @param log of its operations
   * @param planned algorithms of its calls
   * @param kernels which know its graphs
   * @param transports to ranks of this machine that no network carries data to, by rank
   */
  EstimatedTraffic(
      Supplier<List<? extends Link>> counted,
      FlightRecorder log,
      PlannedAlgorithms planned,
      RankTraffic traffic,
      KernelCommunicator kernels,
      int nRanks,
      SortedMap<Integer, String> transports) {
    this.counted = counted;
    this.log = log;
    this.planned = planned;
    this.traffic = traffic;
    this.kernels = kernels;
    this.nRanks = nRanks;
    this.sums = new double[nRanks + 2];
    transports.forEach((peer, transport) -> links.add(new Estimate(peer, transport)));
    links.add(new Estimate(SEVERAL, SWITCH));
  }

  /** A link with its estimate, as far as was looked. */
  private final class Estimate implements Link {
    private final int peer;
    private final String transport;

    Estimate(int peer, String transport) {
      this.peer = peer;
      this.transport = transport;
    }

    @Override
    public int peer() {
      return peer;
    }

    @Override
    public String transport() {
      return transport;
    }

    @Override
    public LinkStatus status() {
      long sent = (long) sums[peer == SEVERAL ? nRanks : peer];
      long received = peer == SEVERAL ? (long) sums[nRanks + 1] : 0;
      return new LinkStatus(sent, sent, received, false, "", Failovers.NONE);
    }
  }

  @Override
  public List<? extends Link> get() {
    look();
    kernels.visitCaptured(this::look);
    log.observe(new Replays((long) repeated[0], Math.round(repeated[1]), Math.round(repeated[2])));
    List<Link> all = new ArrayList<>(counted.get());
    all.addAll(links);
    return all;
  }

  private void look() {
    long ended = log.ended();
    if (ended > seen) {
      Sum some = new Sum();
      some.add(seen, ended);
      some.addTo(sums, 1);
      seen = ended;
    }
  }

  /** A graph's first launch is the launch that was captured, which has counted. */
  private void look(CapturedLaunches captured) {
    Graph graph = graphs.computeIfAbsent(captured, key -> new Graph());
    captured.visit(graph::add);
    long replays = Math.max(1, captured.replays());
    graph.launch.addTo(sums, replays - graph.counted);
    graph.launch.addRepeated(replays - graph.counted);
    graph.counted = replays;
    if (captured.isOver()) {
      graphs.remove(captured);
    }
  }

  /** The data that a launch of a graph moves, as far as it is captured. */
  private final class Graph {
    private final Sum launch = new Sum();
    private long upTo;
    private long counted = 1;

    /** Operations are on record shortly after their launch. */
    void add(long above, long end) {
      long from = Math.max(above, upTo);
      long to = Math.min(end, log.launchedSoFar());
      if (from < to) {
        launch.add(from, to);
        upTo = to;
      }
    }
  }

  /** The bytes of some operations to each rank, to the switch and from it. */
  private final class Sum {
    private final double[] some = new double[sums.length];
    private double whole;
    private double bus;
    private long operations;
    private long recorded;

    /** Adds the operations with numbers above one and up to another. */
    void add(long above, long upTo) {
      operations += upTo - above;
      log.visit(
          above,
          upTo,
          (shape, count, number) -> {
            recorded += number;
            RankTraffic.Bytes bytes = bytes(shape, count);
            for (int peer = 0; peer < nRanks; peer++) {
              some[peer] += number * bytes.toRank()[peer];
            }
            some[nRanks] += number * bytes.toSwitch();
            some[nRanks + 1] += number * bytes.fromSwitch();
            count(shape, count, number);
          });
    }

    private void count(long shape, long count, long number) {
      Operation operation = CallShape.operation(shape);
      DataType type = CallShape.type(shape);
      if (operation != null && type != null) {
        double size = (double) number * count * type.bytes() * operation.wholes(nRanks);
        whole += size;
        bus += size * operation.busFactor(nRanks);
      }
    }

    /** Operations that have been overwritten since count as those on record. */
    private double scale(long times) {
      return recorded == 0 ? 0 : (double) times * operations / recorded;
    }

    void addTo(double[] all, long times) {
      double scale = scale(times);
      Arrays.setAll(all, i -> all[i] + some[i] * scale);
    }

    void addRepeated(long times) {
      repeated[0] += times * operations;
      repeated[1] += whole * scale(times);
      repeated[2] += bus * scale(times);
    }
  }

  private RankTraffic.Bytes bytes(long shape, long count) {
    if (known.size() >= MOST_KNOWN) {
      known.clear();
    }
    return known.computeIfAbsent(new Call(shape, count), call -> estimate(shape, count));
  }

  /** Bytes of a call; none if its size is not known. */
  private RankTraffic.Bytes estimate(long shape, long count) {
    Operation operation = CallShape.operation(shape);
    DataType type = CallShape.type(shape);
    int root = CallShape.root(shape);
    if (operation == null || type == null || root < 0 || root >= nRanks) {
      return new RankTraffic.Bytes(new double[nRanks], 0, 0);
    }
    if (!operation.isOfAllRanks()) {
      return traffic.of(operation, Algorithm.PAIRWISE, root, mostBytes(operation, shape, count));
    }
    Optional<Algorithm> algorithm = planned.of(shape, count);
    Algorithm usual = operation.isCollective() ? Algorithm.RING : Algorithm.PAIRWISE;
    double whole = (double) count * type.bytes() * operation.wholes(nRanks);
    return traffic.of(operation, algorithm.orElse(usual), root, whole);
  }

  /** The bytes of a call that is no collective, at most; as {@link RankTraffic#of} takes them. */
  private double mostBytes(Operation operation, long shape, long count) {
    return switch (operation) {
      case DISPATCH, COMBINE -> count * planned.elementBytes(shape);
      default -> (double) count * CallShape.type(shape).bytes();
    };
  }
}
