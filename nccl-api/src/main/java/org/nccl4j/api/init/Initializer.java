package org.nccl4j.api.init;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.init.connect.ConnectionSetup;
import org.nccl4j.api.init.connect.NetDiscovery;
import org.nccl4j.api.init.connect.RmaConnections;
import org.nccl4j.api.init.connect.Routes;
import org.nccl4j.api.init.connect.TransportContextImpl;
import org.nccl4j.api.init.connect.VerifiedConnections;
import org.nccl4j.api.init.engine.Engine;
import org.nccl4j.api.init.engine.KernelSpecs;
import org.nccl4j.api.init.engine.MemoryUsage;
import org.nccl4j.api.init.engine.NvlsSetup;
import org.nccl4j.api.init.engine.Profilers;
import org.nccl4j.api.init.engine.RankCapabilities;
import org.nccl4j.api.init.engine.SharedResources;
import org.nccl4j.api.init.exchange.Cliques;
import org.nccl4j.api.init.exchange.HostLayout;
import org.nccl4j.api.init.exchange.InitRequest;
import org.nccl4j.api.init.exchange.LocalIdentity;
import org.nccl4j.api.init.exchange.Membership;
import org.nccl4j.api.init.exchange.PeerHello;
import org.nccl4j.api.init.topology.ChannelGraphs;
import org.nccl4j.api.init.topology.NetDistances;
import org.nccl4j.api.init.topology.TopologyExchange;
import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.observe.InitTimes;
import org.nccl4j.api.plan.CommunicatorProfile;
import org.nccl4j.api.plan.TunedTable;
import org.nccl4j.api.proxy.ProxyThread;
import org.nccl4j.api.registry.TransportRegistry;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.settings.PlanSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.settings.TlsSettings;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.api.spi.Transport;
import org.nccl4j.api.spi.TransportProvider;
import org.nccl4j.api.window.WindowRegistry;
import org.nccl4j.api.wire.tls.ControlTls;
import org.nccl4j.device.Device;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelDevice;
import org.nccl4j.device.kernel.Progress;

/** Makes one rank's communicator, step by step together with the other ranks. */
public final class Initializer {
  private static final SecureRandom CHANCE = new SecureRandom();

  private final InitRequest request;
  private final Bootstrap bootstrap;
  private final List<Routes.NamedTransport> transports = new ArrayList<>();
  private final Undo undo = new Undo();

  /** Null until they are opened. */
  private Profilers profilers;

  private Initializer(InitRequest request, Bootstrap bootstrap, Profilers profilers) {
    this.request = request;
    this.bootstrap = bootstrap;
    this.profilers = profilers;
  }

  /**
   * Makes a communicator of the ranks that a bootstrap has brought together. Takes over the
   * bootstrap; if it fails, all ranks are told why and everything is freed.
   */
  public static CommunicatorState create(InitRequest request, Bootstrap bootstrap) {
    return create(request, bootstrap, new InitTimes(request.name(), bootstrap.rank()));
  }

  /**
   * As {@link #create(InitRequest, Bootstrap)}.
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
   * Makes what runs the operations of a communicator anew; as {@link #create}.
   *
   * @param profilers that have been opened for it
   * @param last what is done with it at the end
   */
  static <T> T again(
      InitRequest request, Bootstrap bootstrap, Profilers profilers, Function<Engine, T> last) {
    bootstrap.making();
    InitTimes times = new InitTimes(request.name(), bootstrap.rank());
    return new Initializer(request, bootstrap, profilers)
        .make(times, (members, engine) -> last.apply(engine));
  }

  private <T> T make(InitTimes times, BiFunction<Membership, Engine, T> last) {
    undo.push(bootstrap::close);
    return undo.made(request.name(), () -> makeAll(times, last), bootstrap::tellFailure);
  }

  private <T> T makeAll(InitTimes times, BiFunction<Membership, Engine, T> last) {
    int rank = bootstrap.rank();
    Engine.checkNames(request.settings(), request.device().kind());
    times.begin("plug-ins, nets");
    Optional<TunedTable> tuned =
        TunedTable.read(request.settings().get(PlanSettings.NCCL4J_COSTS_FILE));
    List<TransportProvider> providers =
        TransportRegistry.providers(request.settings().get(Settings.NCCL4J_TRANSPORTS));
    if (profilers == null) {
      profilers = Profilers.open(request, rank, bootstrap.nRanks());
      undo.push(profilers::close);
    }
    NetDiscovery nets = NetDiscovery.of(request, bootstrap);
    times.begin("ranks meet");
    Membership members = meet(providers, nets);
    List<PeerInfo> peers = members.peers();
    KernelDevice device = (KernelDevice) request.device();
    ConnectionLayout layout = device.connectionLayout(HostLayout.of(peers).sharingSlots());
    times.begin("machines");
    TopologyExchange machines = TopologyExchange.of(request, peers, nets.reachingGpus(), bootstrap);
    times.begin("graphs");
    ChannelGraphs graphs = ChannelGraphs.of(request, machines, peers, bootstrap);
    TransportContextImpl context =
        new TransportContextImpl(
            rank,
            peers,
            nets.providers(),
            request.device(),
            layout,
            bootstrap.secret(),
            request.settings(),
            request.device().kind() == Device.Kind.CUDA
                ? NetDistances.of(graphs.fleet(), rank)
                : NetDistances.UNKNOWN,
            graphs.exits(request.settings()),
            ControlTls.of(TlsSettings.files(request.settings())),
            profilers.ofSteps());
    times.begin("transports");
    int before = undo.size();
    for (TransportProvider provider : providers) {
      Transport transport = provider.open(context);
      undo.push(transport::close);
      transports.add(new Routes.NamedTransport(provider, transport));
    }
    Routes choice = new Routes(rank, peers, transports, nets.asked(), request.logLevel("INIT"));
    times.begin("connections");
    VerifiedConnections checked = VerifiedConnections.of(request, choice, peers, bootstrap);
    List<Routes.NamedTransport> routes = checked.routes();
    ConnectionSetup links = checked.links();
    // All-gather, so nobody goes on before all are connected.
    List<ProxyHandler> handlers = links.proxyHandlers();
    RankCapabilities own = RankCapabilities.of(request, peers, routes, links, graphs, tuned);
    CommunicatorProfile known =
        RankCapabilities.common(bootstrap.allGather(own.toBytes()), HostLayout.of(peers), tuned);
    NvlsSetup nvls = NvlsSetup.open(request, context, graphs, known.spread().channels(), bootstrap);
    undo.push(nvls::close);
    boolean puts = RmaConnections.areNeeded(peers, rank);
    ProxyThread proxy =
        handlers.isEmpty() && !puts ? null : new ProxyThread(request.name(), handlers);
    Progress progress = proxy == null ? Progress.NONE : proxy;
    times.begin("kernels");
    KernelCommunicator kernels =
        device.createKernelCommunicator(
            KernelSpecs.of(
                request,
                rank,
                peers,
                layout,
                graphs,
                new KernelSpecs.Ends(links.sends(), links.recvs(), progress, nvls.nvls())));
    undo.push(kernels::close);
    SharedResources resources =
        new SharedResources(request.name(), bootstrap, kernels, transports, proxy, nvls);
    undo.replace(before, resources::free);
    WindowRegistry windows =
        Engine.windows(
            request,
            members,
            bootstrap,
            kernels,
            RmaConnections.of(peers, routes, transports, bootstrap, kernels, proxy, device),
            nvls.ofWindows(bootstrap));
    undo.push(windows::close);
    Engine engine =
        Engine.of(
            new Engine.Place(
                request,
                members.id(),
                rank,
                known.with(graphs.fleet()),
                layout,
                windows,
                nvls.nvls(),
                members.hosts(),
                machines,
                profilers),
            resources,
            kernels,
            new Launcher(kernels),
            choice.described(routes));
    times.begin("space");
    if (engine.queue().direct().wantsSpace()) {
      windows.makeSpace();
    }
    bootstrap.made();
    resources.start();
    T made = last.apply(members, engine);
    times.done(request.logLevel("INIT"));
    InfoLog info = request.info(rank);
    Routes.tell(engine.routes(), info);
    if (proxy != null) {
      info.tell(
          "PROXY",
          () ->
              "has a thread for %d ends of connections%s"
                  .formatted(handlers.size(), puts ? " and for puts" : ""));
    }
    info.tell("ALLOC", () -> "holds %s bytes".formatted(MemoryUsage.of(engine)));
    tuned.ifPresent(
        table ->
            info.tell(
                "TUNING",
                () ->
                    "goes by the times of "
                        + request.settings().get(PlanSettings.NCCL4J_COSTS_FILE)));
    return made;
  }

  private Membership meet(List<TransportProvider> providers, NetDiscovery nets) {
    PeerInfo self =
        LocalIdentity.of(
            bootstrap.rank(),
            request.device(),
            request.settings().get(Settings.NCCL_HOSTID),
            nets.names());
    List<String> names = providers.stream().map(TransportProvider::name).toList();
    PeerHello hello =
        new PeerHello(
            self, names, bootstrap.meetingPoint(), Cliques.wish(request), CHANCE.nextLong());
    List<PeerHello> hellos = new ArrayList<>();
    for (byte[] bytes : bootstrap.allGather(hello.toBytes())) {
      hellos.add(PeerHello.fromBytes(hellos.size(), bytes));
    }
    refuseSharedGpu(hellos.stream().map(PeerHello::peer).toList());
    List<byte[]> points = hellos.stream().map(PeerHello::meetingPoint).toList();
    List<PeerInfo> peers = Cliques.of(request, providers, hellos, bootstrap);
    return new Membership(peers, points, "", number(bootstrap.secret(), hellos.get(0).chance()));
  }

  /**
   * Two ranks of one GPU wait for each other's kernels, which the GPU may not run at once; so that
   * has to be asked for.
   */
  private void refuseSharedGpu(List<PeerInfo> peers) {
    boolean allowed = request.settings().get(Settings.NCCL_MULTI_RANK_GPU_ENABLE);
    Map<String, Integer> ranks = new HashMap<>();
    for (PeerInfo peer : peers) {
      if (peer.deviceKind() != Device.Kind.CUDA) {
        continue;
      }
      Integer other = ranks.put(HostLayout.deviceOf(peer), peer.rank());
      if (other != null && !allowed) {
        throw new InvalidUsageException(
            ErrorId.SHARED_GPU,
            "ranks %d and %d of communicator %s both use GPU %s"
                .formatted(other, peer.rank(), request.name(), peer.deviceId()),
            "give each rank its own GPU, or set NCCL_MULTI_RANK_GPU_ENABLE=1");
      }
      if (other != null && peer.rank() == bootstrap.rank()) {
        request
            .info(peer.rank())
            .tell(
                "INIT",
                () ->
                    "has the GPU of rank %d: the driver loads no kernel and frees no memory while a"
                            .formatted(other)
                        + " kernel of one waits for the other; have one thread call both in"
                        + " groups");
      }
    }
  }

  /**
   * A number that tells nothing of the secret.
   *
   * @param chance communicators that are made one after the other may have one secret
   */
  private static long number(byte[] secret, long chance) {
    try {
      MessageDigest hash = MessageDigest.getInstance("SHA-256");
      hash.update("communicator".getBytes(StandardCharsets.UTF_8));
      hash.update(ByteBuffer.allocate(Long.BYTES).putLong(0, chance));
      return ByteBuffer.wrap(hash.digest(secret)).getLong();
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java platform has SHA-256", e);
    }
  }
}
