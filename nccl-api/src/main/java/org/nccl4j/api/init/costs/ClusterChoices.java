package org.nccl4j.api.init.costs;

import java.util.List;
import java.util.Optional;
import java.util.function.IntUnaryOperator;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.nccl4j.api.init.engine.Engine;
import org.nccl4j.api.init.topology.ChannelGraphs;
import org.nccl4j.api.plan.MessageChoices;
import org.nccl4j.api.plan.Planner;
import org.nccl4j.api.plan.algorithm.AlgorithmChoice;
import org.nccl4j.api.plan.algorithm.AlgorithmSelector;
import org.nccl4j.api.plan.algorithm.ChannelBandwidth;
import org.nccl4j.api.plan.algorithm.CommunicatorProfile;
import org.nccl4j.api.plan.algorithm.CostModel;
import org.nccl4j.api.plan.algorithm.RankPlacement;
import org.nccl4j.api.plan.algorithm.TunedTable;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.settings.PlanSettings;
import org.nccl4j.api.settings.ScaleSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.TunerContext;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.KernelDevice.BlockRoom;
import org.nccl4j.operation.Operation;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.cluster.ClusterOptions;
import org.nccl4j.topo.cluster.CommTopology;
import org.nccl4j.topo.path.Routes;
import org.nccl4j.topo.system.Node;

/**
 * The choices that a communicator with a rank on every GPU of a cluster would make over
 * connections, asked of its planner without creating one. NVLink SHARP, which the driver and the
 * ranks decide on, and windows are left out. GPUs have room for all blocks.
 */
public final class ClusterChoices {
  private static final String NAME = "simulation";
  private static final DataType TYPE = DataType.FLOAT32;

  private final CommunicatorProfile ranks;
  private final Planner.Rules rules;
  private final CostModel costs;
  private final AlgorithmSelector selector;
  private final MessageChoices messages;

  private ClusterChoices(CommunicatorProfile ranks, Planner.Rules rules) {
    this.ranks = ranks;
    this.rules = rules;
    this.costs = rules.ctas().costs(ranks.costs(), ranks.nRanks());
    this.selector = new AlgorithmSelector(costs, rules.filter(), rules.edit());
    this.messages = new MessageChoices(ranks, costs, rules, /* hasCopyEngines= */ true);
  }

  /**
   * The network between the machines, which carries notes.
   *
   * @param name as {@code NCCL_NET} has it
   * @param direct whether its cards access the GPUs' memory that the topology says they reach
   * @param channels of a connection that rings, trees and the like need, given how many use all of
   *     the machines' cards
   * @param pairChannels of any other connection, likewise
   */
  public record Network(
      String name, boolean direct, IntUnaryOperator channels, IntUnaryOperator pairChannels) {}

  /**
   * A choice.
   *
   * @param bytes of the whole data
   * @param channels of a collective; 0 for sends and receives, whose channels the device chooses
   * @param ways the chosen one, then the others that the settings allow, the cheapest first; last
   *     those that are taken only if NCCL_ALGO names them, as {@link CostModel#ONLY_WHERE_ASKED}
   *     says
   * @param source of the chosen one's time, in a few words
   */
  public record Choice(
      Operation operation, long bytes, int channels, List<AlgorithmChoice> ways, String source) {
    /** Copies the list. */
    public Choice {
      ways = List.copyOf(ways);
    }

    /** The way that is taken. */
    public AlgorithmChoice chosen() {
      return ways.get(0);
    }

    /** The way that would be taken next; empty if there is none. */
    public Optional<AlgorithmChoice> nextBest() {
      return ways.stream()
          .skip(1)
          .filter(way -> way.microseconds() < CostModel.ONLY_WHERE_ASKED)
          .findFirst();
    }

    /** Microseconds that the choice saves against the next best way; 0 without such a way. */
    public double saves() {
      return nextBest().map(way -> way.microseconds() - chosen().microseconds()).orElse(0.0);
    }
  }

  /** The options with which a communicator searches: its planner alone chooses algorithms. */
  public static ClusterOptions searching(ClusterOptions options) {
    return new ClusterOptions(
        options.settings().without(ChannelGraphs.PLANNERS), options.driver(), options.collNet());
  }

  /**
   * The choices on a cluster.
   *
   * @param cluster made with the options of {@link #searching}
   * @param model of its GPUs as the driver names it, for measured times; "" for none
   * @throws org.nccl4j.device.NcclException for wrong settings and files that they name
   */
  public static ClusterChoices of(
      Settings settings, Cluster cluster, String model, Network network) {
    CommunicatorProfile ranks = profile(settings, cluster, model, network);
    return new ClusterChoices(
        ranks,
        Engine.rules(
            settings,
            new TunerContext(NAME, ranks.nRanks(), cluster.machines(), ranks.kind()),
            ranks.room(),
            new InfoLog(settings, NAME)));
  }

  /** The facts that the ranks of a communicator would find and tell each other. */
  static CommunicatorProfile profile(
      Settings settings, Cluster cluster, String model, Network network) {
    CommTopology topology = cluster.topology();
    Routes machine = cluster.whole();
    int each = machine.machine().gpus().size();
    boolean carried = cluster.machines() > 1 || cluster.domains().size() > 1;
    boolean reach = !carried && allReachEachOther(machine);
    boolean nvlink =
        reach && new ChannelGraphs(List.of(), List.of(), Optional.of(topology)).isByNvlink();
    List<List<Integer>> hosts =
        IntStream.range(0, cluster.machines())
            .mapToObj(host -> IntStream.range(host * each, (host + 1) * each).boxed().toList())
            .toList();
    int cards = ChannelBandwidth.channels(topology);
    return new CommunicatorProfile(
        cluster.machines() * each,
        Device.Kind.CUDA,
        model,
        reach,
        nvlink,
        new RankPlacement(
                hosts,
                carried,
                carried ? network.channels.applyAsInt(cards) : ConnectionLayout.CHANNELS,
                /* lines= */ !carried || !network.direct || !reachesGpus(machine),
                network.name)
            .withPairChannels(
                carried ? network.pairChannels.applyAsInt(cards) : ConnectionLayout.CHANNELS)
            .withLate(
                ScaleSettings.connectsLate(settings, Device.Kind.CUDA, cluster.machines() * each)),
        Optional.of(topology),
        TunedTable.read(settings.get(PlanSettings.NCCL4J_COSTS_FILE)),
        Runtime.getRuntime().availableProcessors(),
        BlockRoom.UNLIMITED);
  }

  private static boolean allReachEachOther(Routes machine) {
    List<Node> gpus = machine.machine().gpus();
    return gpus.stream()
        .allMatch(
            gpu ->
                gpus.stream()
                    .allMatch(peer -> peer == gpu || machine.peers().access(gpu, peer).direct()));
  }

  /** True if a card has the slots of a GPU in the GPU's memory, where no proxy finds lines. */
  private static boolean reachesGpus(Routes machine) {
    return machine.machine().gpus().stream()
        .anyMatch(
            gpu ->
                machine.locality().netsOf(gpu).stream()
                    .anyMatch(
                        net ->
                            machine.gdr().allowed(gpu, net, /* read= */ true)
                                || machine.gdr().allowed(gpu, net, /* read= */ false)));
  }

  /** Returns the origin of the times, as a sentence. */
  public String source() {
    return costs.source();
  }

  /**
   * The choice for an operation on float32, sums where it reduces.
   *
   * @param operation of all ranks, or a send
   * @param count elements, as a call has them
   */
  public Choice choose(Operation operation, long count) {
    long part = count * TYPE.bytes();
    long whole = part * operation.wholes(ranks.nRanks());
    if (operation.isCollective()) {
      List<AlgorithmChoice> ways = selector.choices(operation, whole, TYPE, RedOp.SUM);
      AlgorithmChoice chosen = ways.get(0);
      return new Choice(
          operation,
          whole,
          rules
              .ctas()
              .channels(
                  costs, ranks.spread().channels(chosen.algorithm()), operation, chosen, whole),
          ways,
          costs.source(operation, chosen.algorithm(), chosen.protocol()));
    }
    AlgorithmChoice chosen = messages.choice(operation, part, TYPE);
    Stream<AlgorithmChoice> others =
        messages.hasRails(operation)
            ? selector.exchanges(operation, whole, TYPE).stream()
                .filter(way -> way.algorithm() != chosen.algorithm())
            : Stream.empty();
    return new Choice(
        operation,
        whole,
        /* channels= */ 0,
        Stream.concat(Stream.of(chosen), others).toList(),
        messages.source(operation, chosen));
  }
}
