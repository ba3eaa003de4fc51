package org.nccl4j.api.init.engine;

import java.lang.System.Logger.Level;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.group.CallConsistencyCheck;
import org.nccl4j.api.group.CommunicatorRank;
import org.nccl4j.api.group.OperationDispatcher;
import org.nccl4j.api.init.connect.SharedLink;
import org.nccl4j.api.init.connect.TransportRoutes;
import org.nccl4j.api.init.peers.InitRequest;
import org.nccl4j.api.init.peers.Membership;
import org.nccl4j.api.init.topology.ChannelGraphs;
import org.nccl4j.api.init.topology.TopologyExchange;
import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.observe.NvtxRanges;
import org.nccl4j.api.observe.OperationLines;
import org.nccl4j.api.observe.flight.FlightRecorder;
import org.nccl4j.api.observe.flight.Link;
import org.nccl4j.api.plan.NvlsAccess;
import org.nccl4j.api.plan.PlannedAlgorithms;
import org.nccl4j.api.plan.Planner;
import org.nccl4j.api.plan.RankTraffic;
import org.nccl4j.api.plan.algorithm.CtaLimits;
import org.nccl4j.api.plan.algorithm.TunerHook;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.plan.trial.TrialChannel;
import org.nccl4j.api.plan.trial.Trials;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.api.settings.DebugSettings;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.settings.PlanSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.TunerContext;
import org.nccl4j.api.window.RemotePeers;
import org.nccl4j.api.window.WindowMulticast;
import org.nccl4j.api.window.WindowRegistry;
import org.nccl4j.api.window.WindowSetup;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.Device;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelDevice;
import org.nccl4j.device.kernel.KernelDevice.BlockRoom;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.topo.TopoSettings;

/**
 * The objects that run the operations of one rank's communicator.
 *
 * @param place whose
 * @param resources what its connections belong to
 * @param kernels its own
 * @param launcher the order of its operations
 * @param dispatcher where they go
 * @param routes how each rank is reached
 */
public record Engine(
    Place place,
    SharedResources resources,
    KernelCommunicator kernels,
    Launcher launcher,
    OperationDispatcher dispatcher,
    Map<Integer, TransportRoutes.Route> routes) {

  private static final int CTA_POLICY_EFFICIENCY = 1; // a bit, like the next
  private static final int CTA_POLICY_ZERO = 2;

  /** Name of the transport whose proxies count. */
  private static final String NETWORK = "NET";

  private static final System.Logger LOG = DebugLog.of("ENV");

  /** True once the process has logged that GPUs lack an algorithm. */
  private static final AtomicBoolean ALGORITHM_REFUSED = new AtomicBoolean();

  /**
   * A rank's place in a communicator.
   *
   * @param communicator see {@link Membership#id}
   * @param facts what all ranks know of each other
   * @param layout of the connections
   * @param windows its windows
   * @param nvls its NVLS
   * @param hosts machines that the ranks are on
   * @param machines those machines, as far as they are known
   * @param graphs rings and trees of the ranks
   * @param planned algorithms of its calls
   * @param profilers its own
   */
  public record Place(
      InitRequest request,
      long communicator,
      int rank,
      CommunicatorProfile facts,
      ConnectionLayout layout,
      WindowRegistry windows,
      NvlsAccess nvls,
      int hosts,
      TopologyExchange machines,
      ChannelGraphs graphs,
      PlannedAlgorithms planned,
      Profilers profilers) {
    /** The same with other facts. */
    public Place knowing(CommunicatorProfile others) {
      return new Place(
          request,
          communicator,
          rank,
          others,
          layout,
          windows,
          nvls,
          hosts,
          machines,
          graphs,
          planned,
          profilers);
    }
  }

  /**
   * The windows of a rank whose kernels have been made: none yet.
   *
   * @param multicast has all ranks' memory reached by one access, or null
   */
  public static WindowRegistry windows(
      InitRequest request,
      Membership members,
      Bootstrap bootstrap,
      KernelCommunicator kernels,
      RemotePeers remote,
      WindowMulticast multicast) {
    return new WindowRegistry(
        new WindowSetup(
            request.name(),
            bootstrap.rank(),
            members.peers(),
            members.unreached(),
            request.device(),
            bootstrap,
            request.settings().get(Settings.NCCL_WIN_STRIDE),
            remote,
            multicast,
            request.logLevel("INIT", "NVLS")),
        kernels::attach);
  }

  /** An engine on kernels that have been made. */
  public static Engine of(
      Place place,
      SharedResources resources,
      KernelCommunicator kernels,
      Launcher launcher,
      Map<Integer, TransportRoutes.Route> routes) {
    Settings settings = place.request.settings();
    launcher.mark(NvtxRanges.of(settings));
    OperationDispatcher dispatcher = dispatcher(place, kernels, launcher, settings);
    trials(place, resources).ifPresent(dispatcher::tryOut);
    return new Engine(place, resources, kernels, launcher, dispatcher, Map.copyOf(routes));
  }

  /** The trials of algorithms, where the settings want them and a table can hold their times. */
  private static Optional<Trials> trials(Place place, SharedResources resources) {
    InitRequest request = place.request;
    CommunicatorProfile facts = place.facts;
    String folder = request.settings().get(PlanSettings.NCCL4J_TRIALS);
    if (folder.isEmpty() || facts.nRanks() == 1) {
      return Optional.empty();
    }
    InfoLog info = request.info(place.rank);
    if (facts.inTables().isEmpty() || facts.model().isEmpty()) {
      info.tell(
          "TUNING",
          () ->
              "ignores NCCL4J_TRIALS: a table of times needs devices of one model, and on several"
                  + " hosts as many ranks on each and one network");
      return Optional.empty();
    }
    Trials.Rank rank =
        new Trials.Rank(
            place.communicator,
            place.rank,
            facts.nRanks(),
            facts.inTables(),
            facts.model(),
            request.operationTimeout());
    TrialChannel channel = place.hosts == 1 ? null : resources.trialChannel();
    return Optional.of(new Trials(request.device(), rank, folder, channel, info));
  }

  /** Adds the hooks of its operations; once for a communicator. */
  public void tellOperations() {
    place.profilers.ofOperations().ifPresent(launcher.hooks()::add);
    if (place.request.logLevel("COLL") == System.Logger.Level.INFO) {
      launcher.hooks().add(new OperationLines(place.request.name(), place.rank));
    }
  }

  private static OperationDispatcher dispatcher(
      Place place, KernelCommunicator kernels, Launcher launcher, Settings settings) {
    InitRequest request = place.request;
    int nRanks = place.facts.nRanks();
    Planner planner =
        new Planner(
            kernels,
            new Planner.Place(place.rank, place.facts, place.layout, place.nvls, place.windows),
            rules(
                settings,
                new TunerContext(request.name(), nRanks, place.hosts, request.device().kind()),
                place.facts.room(),
                request.info(place.rank)));
    planner.note(place.planned);
    ReductionOrder.check(settings, planner, request.name(), nRanks);
    CallConsistencyCheck signatures =
        compares(settings)
            ? new CallConsistencyCheck(
                request.name(),
                place.communicator,
                kernels,
                launcher,
                (KernelDevice) request.device(),
                nRanks)
            : null;
    return new OperationDispatcher(
        new CommunicatorRank(
            request.name(),
            place.communicator,
            place.rank,
            nRanks,
            request.device(),
            settings.get(DebugSettings.NCCL_CHECK_POINTERS),
            !settings.get(Settings.NCCL_CHECK_MODE).equals("DEFAULT")),
        planner,
        launcher,
        signatures);
  }

  /**
   * The user's rules for a communicator's plans.
   *
   * @param room for blocks that all ranks' devices have
   */
  public static Planner.Rules rules(
      Settings settings, TunerContext context, BlockRoom room, InfoLog info) {
    return new Planner.Rules(
        filter(settings, context.deviceKind()),
        TunerAdapter.tuner(settings, context, info),
        ctas(settings, context.deviceKind()).within(room),
        settings.get(PlanSettings.NCCL_P2P_LL_THRESHOLD),
        info);
  }

  /** A planner that the user's filter and tuner do not reach, to measure algorithms with. */
  public static Planner measuring(Place place, KernelCommunicator kernels) {
    InitRequest request = place.request;
    return new Planner(
        kernels,
        new Planner.Place(place.rank, place.facts, place.layout, place.nvls, place.windows),
        new Planner.Rules(
            AlgorithmFilter.ALL,
            TunerHook.NONE,
            ctas(request.settings(), request.device().kind()).within(place.facts.room()),
            request.settings().get(PlanSettings.NCCL_P2P_LL_THRESHOLD),
            request.info(place.rank)));
  }

  /**
   * Throws for names of algorithms and protocols that do not exist or contradict each other. Warns
   * once in a process if NCCL_ALGO names for GPUs what only the host device has.
   */
  public static void checkNames(Settings settings, Device.Kind kind) {
    AlgorithmFilter filter = filter(settings, kind);
    List<String> refused =
        Stream.of(Algorithm.values())
            .filter(algorithm -> algorithm.isOfHostAlone() && filter.demandsAnywhere(algorithm))
            .map(Algorithm::label)
            .toList();
    if (!refused.isEmpty()
        && kind == Device.Kind.CUDA
        && ALGORITHM_REFUSED.compareAndSet(false, true)) {
      LOG.log(
          Level.WARNING,
          "NCCL_ALGO names %s, which only the host device has: GPUs choose among its other"
                  .formatted(String.join(", ", refused))
              + " algorithms, or among all if it names no other; add Ring to use rings");
    }
  }

  /** True if calls are compared before they begin. */
  static boolean compares(Settings settings) {
    return settings.get(Settings.NCCL_CHECK_MODE).equals("DEBUG_GLOBAL");
  }

  /**
   * Returns the filter of NCCL_ALGO. Where it is unset, the order of reductions and the policy of
   * CTAs give the filter.
   */
  static AlgorithmFilter filter(Settings settings, Device.Kind kind) {
    AlgorithmFilter given = TuningSettings.filter(settings);
    AlgorithmFilter filter = ReductionOrder.filter(settings, given);
    boolean copies = (settings.get(PlanSettings.NCCL_CTA_POLICY) & CTA_POLICY_ZERO) != 0;
    if (!copies || kind != Device.Kind.CUDA || !given.allowsAllAlgorithms()) {
      return filter;
    }
    for (Operation operation : Operation.ofAllRanks()) {
      if (!operation.reduces()) {
        filter = filter.with(operation, Algorithm.COPY_ENGINE_STREAM);
      }
    }
    return filter.with(Operation.SEND, Algorithm.COPY_ENGINE);
  }

  /**
   * Returns the user's limits on an operation's CTAs: each channel is a block. The host has none.
   */
  static CtaLimits ctas(Settings settings, Device.Kind kind) {
    if (kind != Device.Kind.CUDA) {
      return CtaLimits.NONE;
    }
    TopoSettings channels = settings.topology();
    return new CtaLimits(
        Math.max(settings.get(Settings.NCCL_MIN_CTAS), channels.minChannels()),
        Math.min(settings.get(Settings.NCCL_MAX_CTAS), channels.maxChannels()),
        channels.maxPeerChannels(),
        (settings.get(PlanSettings.NCCL_CTA_POLICY) & CTA_POLICY_EFFICIENCY) != 0);
  }

  /**
   * Gives the links that are connected, or that belong to another communicator; on GPUs with
   * estimates of what they move within the machine.
   *
   * @param log of the communicator's operations
   */
  public Supplier<List<? extends Link>> links(FlightRecorder log) {
    Set<Integer> machine =
        place.machines.hosts().stream()
            .map(host -> IntStream.of(host.ranks()).boxed().collect(Collectors.toSet()))
            .filter(ranks -> ranks.contains(place.rank))
            .findFirst()
            .orElse(Set.of());
    if (place.request.device().kind() != Device.Kind.CUDA || machine.isEmpty()) {
      return links();
    }
    SortedMap<Integer, String> transports = new TreeMap<>(TransportRoutes.names(routes));
    transports.keySet().retainAll(machine);
    transports.values().removeAll(List.of(NETWORK));
    return new EstimatedTraffic(
        links(),
        log,
        place.planned,
        new RankTraffic(
            place.rank, place.facts.nRanks(), place.graphs.rings(), place.graphs.trees(), machine),
        kernels,
        place.facts.nRanks(),
        transports);
  }

  private Supplier<List<? extends Link>> links() {
    if (kernels == resources.kernels()) {
      return resources::links;
    }
    List<SharedLink> links = new ArrayList<>();
    TransportRoutes.names(routes)
        .forEach((peer, transport) -> links.add(new SharedLink(peer, transport)));
    return () -> links;
  }

  /** Returns the dispatcher of operations that are planned by other settings. */
  public OperationDispatcher dispatcher(Settings settings) {
    return dispatcher(place, kernels, launcher, settings);
  }
}
