package org.nccl4j.api.init.costs;

import java.util.List;
import java.util.Optional;
import java.util.function.IntUnaryOperator;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.nccl4j.api.init.engine.Engine;
import org.nccl4j.api.init.engine.NvlsSetup;
import org.nccl4j.api.init.topology.ChannelGraphs;
import org.nccl4j.api.plan.MessageChoices;
import org.nccl4j.api.plan.Planner;
import org.nccl4j.api.plan.algorithm.AlgorithmSelector;
import org.nccl4j.api.plan.cost.AlgorithmChoice;
import org.nccl4j.api.plan.cost.ChannelBandwidth;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.plan.cost.CostModel;
import org.nccl4j.api.plan.cost.RankPlacement;
import org.nccl4j.api.plan.cost.TunedTable;
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
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.NvlsLayout;
import org.nccl4j.device.symmetric.MulticastMemory;
import org.nccl4j.operation.Operation;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.cluster.ClusterOptions;
import org.nccl4j.topo.cluster.CommTopology;
import org.nccl4j.topo.path.Routes;
import org.nccl4j.topo.system.Node;

/**
 * The choices that a communicator of GPUs, such as one with a rank on every GPU of a cluster, would
 * make over connections, asked of its planner without creating one. Windows are left out, and so is
 * NVLink SHARP unless {@link Members#multicast} says otherwise: the driver and the ranks decide on
 * it. GPUs have room for all blocks.
 */
public final class ClusterChoices {
  private static final String NAME = "simulation";
  private static final DataType TYPE = DataType.FLOAT32;

  /** Of slots of NVLS, which times do not depend on. */
  private static final int NVLS_CHUNK_BYTES = 128 << 10;

  private final CommunicatorProfile ranks;
  private final Planner.Rules rules;
  private final CostModel costs;
  private final AlgorithmSelector selector;
  private final MessageChoices messages;

  private ClusterChoices(CommunicatorProfile ranks, Nvls nvls, Planner.Rules rules) {
    this.ranks = ranks;
    this.rules = rules;
    this.costs = rules.ctas().costs(ranks.costs(nvls, Optional.empty()), ranks.nRanks());
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
   * The GPUs of a communicator.
   *
   * @param topology of its ranks, made with the options of {@link #searching}
   * @param hosts the ranks of each machine, ascending; machines by their lowest rank
   * @param machines the routes of each, or of one machine that all are like
   * @param multicast whether NVLink SHARP counts where the topology shows it and the settings allow
   *     it
   */
  public record Members(
      CommTopology topology, List<List<Integer>> hosts, List<Routes> machines, boolean multicast) {
    /** Copies the lists. */
    public Members {
      hosts = List.copyOf(hosts);
      machines = List.copyOf(machines);
    }

    /** A rank on every GPU of a cluster. */
    static Members of(Cluster cluster) {
      int each = cluster.whole().machine().gpus().size();
      return new Members(
          cluster.topology(),
          IntStream.range(0, cluster.machines())
              .mapToObj(host -> IntStream.range(host * each, (host + 1) * each).boxed().toList())
              .toList(),
          List.of(cluster.whole()),
          /* multicast= */ false);
    }

    int nRanks() {
      return hosts.stream().mapToInt(List::size).sum();
    }

    /** NVLS of these GPUs, which have no memory for it; null for none. */
    private Nvls nvls(Settings settings) {
      int fewest = hosts.stream().mapToInt(List::size).min().orElse(0);
      int channels = topology.comm().nvlsChannels();
      if (!multicast
          || channels == 0
          || fewest < NvlsSetup.fewestRanks(settings)
          || settings.get(Settings.NCCL_NVLS_ENABLE) == 0
          || settings.get(Settings.NCCL4J_NVLS_MODE).equals("off")) {
        return null;
      }
      List<Integer> ranks = hosts.get(0);
      int heads = Math.min(fewest, NvlsLayout.MOST_HEADS);
      return new Nvls(
          new NvlsLayout(heads, Math.min(channels, ConnectionLayout.CHANNELS), NVLS_CHUNK_BYTES),
          ranks,
          ranks.subList(0, heads),
          0,
          /* unicast= */ null,
          new MulticastMemory(/* emulated= */ false, List.of()),
          /* trees= */ List.of(),
          hosts.size(),
          /* combinesBytes= */ false);
    }

    /** True if a network connects some of them. */
    boolean areCarried() {
      return hosts.size() > 1 || topology.comm().shape().nNodes() > 1;
    }
  }

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
    return of(settings, Members.of(cluster), model, network);
  }

  /**
   * The choices of a communicator.
   *
   * @param model of its GPUs, as above
   * @throws org.nccl4j.device.NcclException likewise
   */
  public static ClusterChoices of(
      Settings settings, Members members, String model, Network network) {
    CommunicatorProfile ranks = profile(settings, members, model, network);
    return new ClusterChoices(
        ranks,
        members.nvls(settings),
        Engine.rules(
            settings,
            new TunerContext(NAME, ranks.nRanks(), members.hosts.size(), ranks.kind()),
            ranks.room(),
            new InfoLog(settings, NAME)));
  }

  /** The facts that the ranks of a communicator would find and tell each other. */
  static CommunicatorProfile profile(
      Settings settings, Members members, String model, Network network) {
    CommTopology topology = members.topology;
    boolean carried = members.areCarried();
    boolean reach =
        !carried && members.machines.stream().allMatch(ClusterChoices::allReachEachOther);
    boolean nvlink =
        reach && new ChannelGraphs(List.of(), List.of(), Optional.of(topology)).isByNvlink();
    int cards = ChannelBandwidth.channels(topology);
    return new CommunicatorProfile(
        members.nRanks(),
        Device.Kind.CUDA,
        model,
        reach,
        nvlink,
        new RankPlacement(
                members.hosts,
                carried,
                carried ? network.channels.applyAsInt(cards) : ConnectionLayout.CHANNELS,
                /* lines= */ !carried
                    || !network.direct
                    || members.machines.stream().noneMatch(ClusterChoices::reachesGpus),
                network.name)
            .withPairChannels(
                carried ? network.pairChannels.applyAsInt(cards) : ConnectionLayout.CHANNELS)
            .withLate(ScaleSettings.connectsLate(settings, Device.Kind.CUDA, members.nRanks())),
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

  /**
   * Predicted microseconds of a choice while others use the same links: what depends on the bytes
   * takes so many times as long.
   *
   * @param shared at least 1
   */
  public double microseconds(Choice choice, double shared) {
    double all = choice.chosen().microseconds();
    double least = Math.min(all, least(choice));
    return least + shared * (all - least);
  }

  /** Of the chosen way with as few bytes as there are. */
  private double least(Choice choice) {
    Operation operation = choice.operation();
    AlgorithmChoice way = choice.chosen();
    return operation.isCollective()
        ? costs.microseconds(
            operation,
            way.algorithm(),
            way.protocol(),
            (long) TYPE.bytes() * operation.wholes(ranks.nRanks()))
        : messages.microseconds(operation, way, TYPE.bytes());
  }
}
