package org.nccl4j.api.plan.cost;

import java.util.List;
import java.util.Optional;
import org.nccl4j.device.Device;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.KernelDevice.BlockRoom;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.topo.cluster.CommTopology;

/**
 * Facts about all ranks and their devices for choosing algorithms, the same on all ranks. Times of
 * GPUs come from measurements of the model of GPU, else from the topology's cost model, else from a
 * formula. The host device has its own formulas.
 *
 * @param nRanks how many
 * @param kind of device that all have
 * @param model of device that all have, such as "NVIDIA H200"; empty if they differ
 * @param reach whether every rank loads and stores every other's memory, without a proxy
 * @param nvlink whether all GPUs do so over NVLink, which keeps stores of 128 bytes whole
 * @param spread over hosts
 * @param topology of the ranks' GPUs, where it is known
 * @param tuned the user's measured times, the same on all ranks
 * @param cores that the ranks of a host may use together, on the host with the fewest
 * @param room for blocks of kernels on the device with the least
 */
public record CommunicatorProfile(
    int nRanks,
    Device.Kind kind,
    String model,
    boolean reach,
    boolean nvlink,
    RankPlacement spread,
    Optional<CommTopology> topology,
    Optional<TunedTable> tuned,
    int cores,
    BlockRoom room) {
  /** Channels of a message that slow links have in any case, as in NCCL. */
  private static final int LEAST_CHANNELS = 2;

  /** Blocks between windows that slow links have in any case: reductions also add. */
  private static final int LEAST_BLOCKS = 8;

  /** Ranks that may all use as many cores as this one. */
  CommunicatorProfile(
      int nRanks,
      Device.Kind kind,
      String model,
      boolean reach,
      boolean nvlink,
      RankPlacement spread,
      Optional<CommTopology> topology,
      Optional<TunedTable> tuned) {
    this(
        nRanks,
        kind,
        model,
        reach,
        nvlink,
        spread,
        topology,
        tuned,
        Runtime.getRuntime().availableProcessors(),
        BlockRoom.UNLIMITED);
  }

  /** Ranks of one host, with memory in common. */
  public CommunicatorProfile(
      int nRanks, Device.Kind kind, String model, boolean reach, boolean nvlink) {
    this(
        nRanks,
        kind,
        model,
        reach,
        nvlink,
        RankPlacement.together(nRanks),
        Optional.empty(),
        Optional.empty());
  }

  /** With the topology, if there is one. */
  public CommunicatorProfile with(Optional<CommTopology> topology) {
    return new CommunicatorProfile(
        nRanks, kind, model, reach, nvlink, spread, topology, tuned, cores, room);
  }

  /** The same with a table of measured times instead. */
  public CommunicatorProfile with(TunedTable table) {
    return new CommunicatorProfile(
        nRanks, kind, model, reach, nvlink, spread, topology, Optional.of(table), cores, room);
  }

  /**
   * True if choices use a table of measured times: those of one host, or those that it has of as
   * many hosts and ranks on each.
   */
  public boolean usesTable(TunedTable table) {
    return table.device().equals(model) && (spread.hosts() == 1 || table.hasTimes(inTables()));
  }

  /** As {@link RankPlacement#inTables}. */
  public String inTables() {
    return spread.inTables();
  }

  /** True if all are GPUs of one model and one machine, between which no proxy carries data. */
  public boolean isAlike() {
    return kind == Device.Kind.CUDA
        && nRanks > 1
        && !model.isEmpty()
        && spread.hosts() == 1
        && !spread.carried();
  }

  /** True if the library has measured times for ranks of one host on a model of GPU. */
  public static boolean isMeasured(String model, int nRanks) {
    return MeasuredCosts.find(model, nRanks).isPresent()
        && GpuWindowCosts.of(model, nRanks).areMeasured();
  }

  /** Reads what was measured for ranks of one host, which takes its time once in a process. */
  public static void readMeasured(String model, int nRanks, CommTopology topology) {
    CommunicatorProfile facts =
        new CommunicatorProfile(
                nRanks, Device.Kind.CUDA, model, /* reach= */ true, /* nvlink= */ true)
            .with(Optional.of(topology));
    facts.costs();
  }

  /**
   * Predicted microseconds of messages that all ranks of several hosts exchange at once.
   *
   * @param near messages of a rank to its own host
   * @param nearBytes of these
   * @param far messages of a rank to other hosts
   * @param farBytes of those of all ranks of a host
   */
  public double messages(int near, long nearBytes, int far, long farBytes) {
    return new MessageTimes(nRanks, spread, kind, topology).of(near, nearBytes, far, farBytes);
  }

  /**
   * Most channels of a message between two ranks, the same for both: as many as fill the path
   * between their GPUs where that is slower than NVLink. 0 for no limit.
   */
  public int channels(int rank, int peer) {
    return kind == Device.Kind.HOST || nvlink
        ? 0
        : topology.map(known -> full(known.pairGigabytes(rank, peer), LEAST_CHANNELS)).orElse(0);
  }

  /** The fewest of those among all ranks; 0 if there is no limit. */
  public int fewestChannels() {
    return kind == Device.Kind.HOST || nvlink
        ? 0
        : topology.map(known -> full(known.leastPairGigabytes(), LEAST_CHANNELS)).orElse(0);
  }

  /**
   * Most blocks of an operation that one-shot or two-shot does between windows: as many as fill the
   * fastest path between two GPUs where that is slower than NVLink. 0 for no limit.
   */
  public int mostWindowBlocks() {
    return kind == Device.Kind.HOST || nvlink
        ? 0
        : topology.map(known -> full(known.mostPairGigabytes(), LEAST_BLOCKS)).orElse(0);
  }

  /** Channels or blocks that fill a path; 0 for all of them. */
  private static int full(double gigabytes, int least) {
    double full = Math.ceil(gigabytes / ChannelBandwidth.OF_ONE);
    return full >= ConnectionLayout.CHANNELS ? 0 : (int) Math.max(least, full);
  }

  /** The factor of predicted times of hierarchical ways, which is more where none was measured. */
  public double hierarchicalMargin() {
    return kind == Device.Kind.HOST ? 1 : GpuNetCostModel.UNMEASURED;
  }

  /** The costs of all algorithms but NVLS. */
  public CostModel costs() {
    return costs(null, Optional.empty());
  }

  /**
   * The costs of all algorithms.
   *
   * @param nvls null for none
   * @param speed of the switch's multicast, if it was measured
   */
  public CostModel costs(Nvls nvls, Optional<SwitchSpeed> speed) {
    CostModel windows = betweenWindows(overConnections());
    CostModel models =
        spread.hasRails() ? RailCosts.over(windows, nRanks, spread, kind, topology) : windows;
    CostModel base =
        tuned.map(table -> table.overWindows(models, inTables(), model)).orElse(models);
    return nvls == null
        ? base
        : new NvlsCostModel(
            base,
            kind == Device.Kind.HOST,
            nvls,
            spread,
            topology,
            tuned.flatMap(table -> table.figuresWithMulticast(inTables(), model)),
            speed);
  }

  /**
   * The same of some of the ranks, which are spread over some of the hosts, on the same
   * connections. Their rings lead over any of them.
   *
   * @param some of each host, by their numbers among themselves
   * @param theirCores as {@link #cores}
   */
  public CommunicatorProfile of(
      List<List<Integer>> some, Optional<CommTopology> theirTopology, int theirCores) {
    RankPlacement theirs =
        new RankPlacement(
                some, spread.carried(), spread.pairChannels(), spread.lines(), spread.network())
            .withLate(spread.late());
    int count = some.stream().mapToInt(List::size).sum();
    return new CommunicatorProfile(
        count, kind, model, reach, nvlink, theirs, theirTopology, tuned, theirCores, room);
  }

  private CostModel betweenWindows(CostModel connections) {
    return kind == Device.Kind.HOST
        ? new HostWindowCosts(connections, nRanks, cores)
        : GpuWindowCosts.of(model, nRanks).over(connections, reach && nvlink, topology);
  }

  private CostModel overConnections() {
    CostModel base = spread.hosts() == 1 ? new OneHostCosts(withoutTable()) : withoutTable();
    boolean relayed = spread.hosts() == 1 && kind == Device.Kind.CUDA && spread.carried();
    return relayed ? base : tuned.map(table -> table.over(base, inTables(), model)).orElse(base);
  }

  private CostModel withoutTable() {
    if (kind == Device.Kind.HOST && spread.carried()) {
      return new NetCostModel(nRanks, spread);
    }
    if (kind == Device.Kind.HOST) {
      return new HostCostModel(nRanks, cores);
    }
    if (spread.carried()) {
      boolean hasTimes = tuned.flatMap(table -> table.figures(inTables(), model)).isPresent();
      return new GpuNetCostModel(nRanks, spread, topology, hasTimes);
    }
    GpuCostModel formula = new GpuCostModel(nRanks, reach, nvlink);
    CostModel predicted =
        topology
            .<CostModel>map(topology -> new TopologyCostModel(topology, formula))
            .orElse(formula);
    Optional<MeasuredCosts> measured =
        reach && nvlink ? MeasuredCosts.find(model, nRanks) : Optional.empty();
    return measured.map(costs -> costs.over(predicted)).orElse(predicted);
  }
}
