package org.nccl4j.api.init;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import java.util.function.Function;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.init.ahead.WarmUpCalls;
import org.nccl4j.api.init.connect.ConnectionSetup;
import org.nccl4j.api.init.connect.NetDiscovery;
import org.nccl4j.api.init.connect.RmaConnections;
import org.nccl4j.api.init.connect.RuntimeConnections;
import org.nccl4j.api.init.connect.TransportContextImpl;
import org.nccl4j.api.init.connect.TransportRoutes;
import org.nccl4j.api.init.connect.VerifiedConnections;
import org.nccl4j.api.init.engine.AllCapabilities;
import org.nccl4j.api.init.engine.Engine;
import org.nccl4j.api.init.engine.KernelSpecs;
import org.nccl4j.api.init.engine.LatePeers;
import org.nccl4j.api.init.engine.MemoryUsage;
import org.nccl4j.api.init.engine.NvlsSetup;
import org.nccl4j.api.init.engine.Profilers;
import org.nccl4j.api.init.engine.RankCapabilities;
import org.nccl4j.api.init.engine.SharedResources;
import org.nccl4j.api.init.engine.TuningSettings;
import org.nccl4j.api.init.peers.HostLayout;
import org.nccl4j.api.init.peers.InitRequest;
import org.nccl4j.api.init.peers.Membership;
import org.nccl4j.api.init.peers.RankExchange;
import org.nccl4j.api.init.probe.Probing;
import org.nccl4j.api.init.probe.SwitchProbe;
import org.nccl4j.api.init.topology.ChannelGraphs;
import org.nccl4j.api.init.topology.NetDistances;
import org.nccl4j.api.init.topology.PeerDistances;
import org.nccl4j.api.init.topology.TopologyExchange;
import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.observe.InitTimes;
import org.nccl4j.api.observe.ProxySpans;
import org.nccl4j.api.plan.PlannedAlgorithms;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.plan.cost.TunedTable;
import org.nccl4j.api.proxy.ProxyThread;
import org.nccl4j.api.registry.TransportRegistry;
import org.nccl4j.api.settings.DebugSettings;
import org.nccl4j.api.settings.GpuSettings;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.settings.PlanSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.settings.TlsSettings;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.api.spi.Transport;
import org.nccl4j.api.spi.TransportProvider;
import org.nccl4j.api.window.WindowRegistry;
import org.nccl4j.api.wire.tls.NetworkTls;
import org.nccl4j.device.Device;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelDevice;
import org.nccl4j.device.kernel.PeerConnector;
import org.nccl4j.device.kernel.Progress;

/** Creates one rank's communicator, step by step together with the other ranks. */
public final class Initializer {
  private final InitRequest request;
  private final Bootstrap bootstrap;
  private final List<TransportRoutes.NamedTransport> transports = new ArrayList<>();
  private final CleanupStack undo = new CleanupStack();

  /** Null until they are opened. */
  private Profilers profilers;

  private Initializer(InitRequest request, Bootstrap bootstrap, Profilers profilers) {
    this.request = request;
    this.bootstrap = bootstrap;
    this.profilers = profilers;
  }

  /**
   * Makes a communicator of the ranks that a bootstrap has brought together. Takes over the
   * bootstrap; if it fails, the failure is reported to all ranks and everything is freed.
   */
  public static CommunicatorState create(InitRequest request, Bootstrap bootstrap) {
    return create(
        request, bootstrap, new InitTimes(request.name(), bootstrap.rank(), request.job()));
  }

  /**
   * Creates a communicator as {@link #create(InitRequest, Bootstrap)} does.
   *
   * @param times of what was done for it before
   */
  public static CommunicatorState create(
      InitRequest request, Bootstrap bootstrap, InitTimes times) {
    return new Initializer(request, bootstrap, null)
        .make(
            times, (members, engine) -> new CommunicatorState(request, bootstrap, members, engine));
  }

  /**
   * Creates the engine of a communicator again, as {@link #create} does.
   *
   * @param profilers that have been opened for it
   * @param last what is done with it at the end
   */
  static <T> T again(
      InitRequest request, Bootstrap bootstrap, Profilers profilers, Function<Engine, T> last) {
    bootstrap.making();
    InitTimes times = new InitTimes(request.name(), bootstrap.rank(), request.job());
    return new Initializer(request, bootstrap, profilers)
        .make(times, (members, engine) -> last.apply(engine));
  }

  private <T> T make(InitTimes times, BiFunction<Membership, Engine, T> last) {
    undo.push(bootstrap::close);
    return undo.made(request.name(), () -> makeAll(times, last), bootstrap::tellFailure);
  }

  private <T> T makeAll(InitTimes times, BiFunction<Membership, Engine, T> last) {
    Engine.checkNames(request.settings(), request.device().kind());
    KernelDevice device = (KernelDevice) request.device();
    if (bootstrap.nRanks() > 1) {
      device.prepareKernels(request.settings().get(GpuSettings.NCCL4J_PRELOAD_KERNELS).types());
    }
    times.begin("plug-ins, nets");
    Plugins plugins = plugins();
    times.begin("ranks meet");
    Membership members =
        RankExchange.meet(request, plugins.providers(), plugins.nets().names(), bootstrap);
    ConnectionLayout layout = layout(members.peers());
    times.begin("machines");
    TopologyExchange machines =
        TopologyExchange.of(request, members.peers(), plugins.nets().nics(), bootstrap);
    times.begin("graphs");
    ChannelGraphs graphs = ChannelGraphs.of(request, machines, members.layout(), bootstrap);
    Ranks ranks =
        new Ranks(
            members,
            layout,
            machines,
            graphs,
            LatePeers.neighbours(request.settings(), members.peers(), graphs, bootstrap.rank()));
    TransportContextImpl context = context(plugins.nets(), ranks);
    times.begin("transports");
    int before = undo.size();
    openTransports(plugins.providers(), context);
    times.begin("connections");
    Connected connected = connect(plugins, ranks, context);
    times.begin("kernels");
    KernelCommunicator kernels = kernels(ranks, connected);
    SharedResources resources =
        new SharedResources(
            request,
            bootstrap,
            kernels,
            new SharedResources.Links(
                transports,
                connected.links().links(connected.verified().routes()),
                connected.links().late(),
                connected.proxy(),
                connected.later()),
            connected.nvls());
    undo.replace(before, resources::free);
    Engine engine = engine(ranks, connected, kernels, resources, times);
    if (bootstrap.nRanks() > 1) {
      times.begin("calls ahead");
      WarmUpCalls.await();
    }
    times.begin("space");
    if (engine.dispatcher().planner().wantsSpace()) {
      engine.place().windows().makeSpace();
    }
    bootstrap.made();
    resources.start();
    times.done(request.logLevel("INIT"));
    tell(engine, connected, plugins);
    return last.apply(
        connected.members(), engine); // after all that may fail: it begins to be observed
  }

  private ConnectionLayout layout(List<PeerInfo> peers) {
    boolean late = LatePeers.areAmongGpus(request.settings(), peers);
    return ((KernelDevice) request.device())
        .connectionLayout(HostLayout.of(peers).sharingSlots(late));
  }

  /**
   * The plug-ins of this rank.
   *
   * @param tuned the user's table of costs, if there is one
   * @param providers transports that the settings allow, best first
   * @param nets networks that can be used
   */
  private record Plugins(
      Optional<TunedTable> tuned, List<TransportProvider> providers, NetDiscovery nets) {}

  private Plugins plugins() {
    Optional<TunedTable> tuned =
        TunedTable.read(request.settings().get(PlanSettings.NCCL4J_COSTS_FILE));
    List<TransportProvider> providers =
        TransportRegistry.providers(request.settings().get(Settings.NCCL4J_TRANSPORTS));
    if (profilers == null) {
      profilers = Profilers.open(request, bootstrap.rank(), bootstrap.nRanks());
      undo.push(profilers::close);
    }
    return new Plugins(tuned, providers, NetDiscovery.of(request, bootstrap));
  }

  /**
   * The facts that all ranks have exchanged before they connect.
   *
   * @param neighbours of this rank: see {@link LatePeers#neighbours}
   */
  private record Ranks(
      Membership members,
      ConnectionLayout layout,
      TopologyExchange machines,
      ChannelGraphs graphs,
      Set<Integer> neighbours) {
    List<PeerInfo> peers() {
      return members.peers();
    }
  }

  private TransportContextImpl context(NetDiscovery nets, Ranks ranks) {
    return new TransportContextImpl(
        bootstrap.rank(),
        ranks.peers(),
        nets.providers(),
        request.device(),
        ranks.layout(),
        bootstrap.secret(),
        request.settings(),
        request.device().kind() == Device.Kind.CUDA
            ? NetDistances.of(ranks.graphs().topology(), bootstrap.rank())
            : NetDistances.UNKNOWN,
        PeerDistances.of(ranks.graphs().topology(), request.settings(), bootstrap.rank()),
        ranks.neighbours(),
        ranks.graphs().egress(request.settings()),
        NetworkTls.of(TlsSettings.files(request.settings())),
        profilers.ofSteps(),
        new ProxySpans(
            request.job(),
            request.name(),
            bootstrap.rank(),
            request.settings().get(DebugSettings.NCCL4J_TRACE_RATE)));
  }

  private void openTransports(List<TransportProvider> providers, TransportContextImpl context) {
    for (TransportProvider provider : providers) {
      Transport transport = provider.open(context);
      undo.push(transport::close);
      transports.add(new TransportRoutes.NamedTransport(provider, transport));
    }
  }

  /**
   * This rank's connections to all others.
   *
   * @param choice selects transports
   * @param members with the pairs that have turned out not to reach each other
   * @param verified the connections, and the transport to each rank
   * @param later makes the other connections; null where there are none
   * @param known what all ranks know of each other's connections
   * @param probing this rank's part in a probe
   * @param probed rank 0's message about a probe
   * @param nvls this rank's place in NVLS
   * @param proxyEnds ends of connections that the proxy serves
   * @param puts whether the proxy serves puts too
   * @param proxy not yet running; null if nothing needs one
   */
  private record Connected(
      TransportRoutes choice,
      Membership members,
      VerifiedConnections verified,
      RuntimeConnections later,
      CommunicatorProfile known,
      Probing probing,
      String probed,
      NvlsSetup nvls,
      int proxyEnds,
      boolean puts,
      ProxyThread proxy) {
    ConnectionSetup links() {
      return verified.links();
    }
  }

  /** Connects; returns when all ranks are connected, because of the last all-gather. */
  private Connected connect(Plugins plugins, Ranks ranks, TransportContextImpl context) {
    List<PeerInfo> peers = ranks.peers();
    TransportRoutes choice =
        new TransportRoutes(
            bootstrap.rank(),
            peers,
            transports,
            plugins.nets().asked(),
            request.settings().get(Settings.NCCL4J_TRANSPORTS),
            request.logLevel("INIT"));
    VerifiedConnections verified = verified(choice, ranks);
    List<ProxyHandler> handlers = verified.links().proxyHandlers();
    Probing probing = probing(plugins, ranks, verified);
    RankCapabilities own =
        RankCapabilities.of(
            request,
            peers,
            new RankCapabilities.Ways(verified, ranks.neighbours(), ranks.graphs()),
            plugins.tuned(),
            probing.shared());
    AllCapabilities all = AllCapabilities.fromBytes(bootstrap.allGather(own.toBytes()));
    Membership members = ranks.members().with(all.unreached());
    boolean puts = RmaConnections.areNeeded(peers, members.team(bootstrap.rank()));
    RuntimeConnections later = later(members, verified, puts);
    CommunicatorProfile known =
        all.common(
            bootstrap.rank(),
            HostLayout.of(peers),
            ranks.members().fewestCores(),
            LatePeers.areAmongGpus(request.settings(), peers),
            plugins.tuned());
    NvlsSetup nvls =
        NvlsSetup.open(
            request,
            context,
            ranks.members().points(),
            ranks.graphs(),
            known.with(ranks.graphs().topology()),
            SwitchProbe.of(
                request, ranks(ranks, verified), plugins.tuned(), this::measuringConditions),
            bootstrap);
    undo.push(nvls::close);
    bootstrap.onCall((call, answer) -> called(nvls, later, call, answer));
    ProxyThread proxy =
        handlers.isEmpty() && !puts && later == null
            ? null
            : new ProxyThread(request.name(), handlers);
    return new Connected(
        choice,
        members,
        verified,
        later,
        known,
        probing,
        all.probed(),
        nvls,
        handlers.size(),
        puts,
        proxy);
  }

  /** Returns what makes the connections that are made later; null where there are none. */
  private RuntimeConnections later(Membership members, VerifiedConnections verified, boolean puts) {
    List<PeerInfo> peers = members.peers();
    boolean mayLack = puts && LatePeers.exist(request.settings(), peers);
    return verified.late().isEmpty() && !mayLack
        ? null
        : new RuntimeConnections(
            request.name(), peers, members.points(), verified, List.copyOf(transports), bootstrap);
  }

  private VerifiedConnections verified(TransportRoutes choice, Ranks ranks) {
    return VerifiedConnections.of(
        request,
        choice,
        ranks.peers(),
        ranks.graphs().neighbours(bootstrap.rank()),
        LatePeers.of(request.settings(), ranks.peers(), ranks.neighbours(), bootstrap.rank()),
        bootstrap);
  }

  private Probing probing(Plugins plugins, Ranks ranks, VerifiedConnections verified) {
    return Probing.of(request, ranks(ranks, verified), plugins.tuned(), this::measuringConditions);
  }

  private Probing.Ranks ranks(Ranks ranks, VerifiedConnections verified) {
    return new Probing.Ranks(
        bootstrap.rank(),
        bootstrap.nRanks(),
        ranks.members().hosts(),
        ranks.graphs().topology(),
        TransportRoutes.names(verified.routes()));
  }

  /** Returns the settings that change measured times. */
  private String measuringConditions() {
    return TuningSettings.of(request.settings(), request.device().kind()).conditions();
  }

  /** Another rank's call goes to what it is for; calls for nothing are refused. */
  private static void called(
      NvlsSetup nvls, RuntimeConnections later, byte[] call, Consumer<byte[]> answer) {
    if (nvls.isFor(call)) {
      nvls.called(call, answer);
    } else if (later != null) {
      later.called(call, answer);
    } else {
      answer.accept(null);
    }
  }

  private KernelCommunicator kernels(Ranks ranks, Connected connected) {
    ProxyThread proxy = connected.proxy();
    KernelCommunicator kernels =
        ((KernelDevice) request.device())
            .createKernelCommunicator(
                KernelSpecs.of(
                    request,
                    bootstrap.rank(),
                    ranks.members(),
                    ranks.layout(),
                    ranks.graphs(),
                    connected.known(),
                    new KernelSpecs.Ends(
                        connected.links().sends(),
                        connected.links().recvs(),
                        proxy == null ? Progress.NONE : proxy,
                        connected.nvls().access().place(),
                        connected.verified().late().isEmpty()
                            ? PeerConnector.NONE
                            : connected.later())));
    undo.push(kernels::close);
    return kernels;
  }

  private WindowRegistry windows(Ranks ranks, Connected connected, KernelCommunicator kernels) {
    WindowRegistry windows =
        Engine.windows(
            request,
            connected.members(),
            bootstrap,
            kernels,
            RmaConnections.of(
                ranks.peers(),
                connected.members().team(bootstrap.rank()),
                connected.verified(),
                transports,
                bootstrap,
                kernels,
                new RmaConnections.Means(
                    (KernelDevice) request.device(), connected.proxy(), connected.later())),
            connected.nvls().ofWindows());
    undo.push(windows::discard);
    connected.nvls().covering(windows::cover);
    return windows;
  }

  private Engine engine(
      Ranks ranks,
      Connected connected,
      KernelCommunicator kernels,
      SharedResources resources,
      InitTimes times) {
    Engine.Place place =
        new Engine.Place(
            request,
            ranks.members().id(),
            bootstrap.rank(),
            connected.known().with(ranks.graphs().topology()),
            ranks.layout(),
            windows(ranks, connected, kernels),
            connected.nvls().access(),
            ranks.members().hosts(),
            ranks.machines(),
            ranks.graphs(),
            new PlannedAlgorithms(),
            profilers);
    Launcher launcher = new Launcher(kernels, request.operationTimeout());
    if (connected.probing().isDue(place.facts(), connected.probed())) {
      times.begin("probe");
      place = probed(place, connected, kernels, launcher);
    }
    connected.nvls().knowing(place.facts());
    return Engine.of(
        place,
        resources,
        kernels,
        launcher,
        connected.choice().described(connected.verified().routes()));
  }

  /** With the times that all ranks measure now, if they can. */
  private Engine.Place probed(
      Engine.Place place, Connected connected, KernelCommunicator kernels, Launcher launcher) {
    return connected
        .probing()
        .measure(
            connected.probed(),
            Engine.measuring(place, kernels),
            launcher,
            place.windows(),
            place.facts().reach(),
            bootstrap)
        .map(table -> place.knowing(place.facts().with(table)))
        .orElse(place);
  }

  /** Logs the result of the creation. */
  private void tell(Engine engine, Connected connected, Plugins plugins) {
    InfoLog info = request.info(bootstrap.rank());
    TransportRoutes.tell(engine.routes(), info);
    if (connected.proxy() != null) {
      info.tell(
          "PROXY",
          () ->
              "runs a proxy thread for %d ends of connections%s"
                  .formatted(connected.proxyEnds(), connected.puts() ? " and for puts" : ""));
    }
    info.tell("ALLOC", () -> "holds %s bytes".formatted(MemoryUsage.of(engine, List.of())));
    info.tellAll("INIT", ((KernelDevice) request.device())::slowerWays);
    plugins
        .tuned()
        .filter(table -> connected.known().usesTable(table))
        .ifPresent(
            table ->
                info.tell(
                    "TUNING",
                    () ->
                        "uses the costs in "
                            + request.settings().get(PlanSettings.NCCL4J_COSTS_FILE)));
  }
}
