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
import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.observe.InitTimes;
import org.nccl4j.api.plan.RankFacts;
import org.nccl4j.api.plan.TunedTable;
import org.nccl4j.api.proxy.ProxyThread;
import org.nccl4j.api.registry.TransportRegistry;
import org.nccl4j.api.settings.Environment;
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
import org.nccl4j.api.wire.tls.ControlTls;
import org.nccl4j.device.Device;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.kernel.Connection;
import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.KernelDevice;
import org.nccl4j.device.kernel.LaunchOptions;
import org.nccl4j.device.kernel.Nvls;
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

  private <T> T make(InitTimes times, BiFunction<Members, Engine, T> last) {
    undo.push(bootstrap::close);
    return undo.made(request.name(), () -> makeAll(times, last), bootstrap::tellFailure);
  }

  private <T> T makeAll(InitTimes times, BiFunction<Members, Engine, T> last) {
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
    UsableNets nets = UsableNets.of(request, bootstrap);
    times.begin("ranks meet");
    Members members = meet(providers, nets);
    List<PeerInfo> peers = members.peers();
    KernelDevice device = (KernelDevice) request.device();
    ConnectionLayout layout = device.connectionLayout(Hosts.of(peers).sharingSlots());
    times.begin("machines");
    MachineSurvey machines = MachineSurvey.of(request, peers, nets.reachingGpus(), bootstrap);
    times.begin("graphs");
    Wiring wiring = Wiring.of(request, machines, peers, bootstrap);
    Context context =
        new Context(
            rank,
            peers,
            nets.providers(),
            request.device(),
            layout,
            bootstrap.secret(),
            request.settings(),
            request.device().kind() == Device.Kind.CUDA
                ? NetDistances.of(wiring.fleet(), rank)
                : NetDistances.UNKNOWN,
            wiring.exits(request.settings()),
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
    CheckedLinks checked = CheckedLinks.of(request, choice, peers, bootstrap);
    List<Routes.NamedTransport> routes = checked.routes();
    Links links = checked.links();
    // All-gather, so nobody goes on before all are connected.
    List<ProxyHandler> handlers = links.proxyHandlers();
    DomainFacts own = DomainFacts.of(request, peers, routes, links, wiring, tuned);
    RankFacts known =
        DomainFacts.common(bootstrap.allGather(own.toBytes()), Hosts.of(peers), tuned);
    NvlsSetup nvls = NvlsSetup.open(request, context, wiring, known.spread().channels(), bootstrap);
    undo.push(nvls::close);
    boolean puts = RemoteLinks.areNeeded(peers, rank);
    ProxyThread proxy =
        handlers.isEmpty() && !puts ? null : new ProxyThread(request.name(), handlers);
    Progress progress = proxy == null ? Progress.NONE : proxy;
    times.begin("kernels");
    KernelCommunicator kernels =
        device.createKernelCommunicator(
            spec(
                request,
                rank,
                peers,
                layout,
                links.sends(),
                links.recvs(),
                wiring,
                progress,
                nvls.nvls()));
    undo.push(kernels::close);
    Family family = new Family(request.name(), bootstrap, kernels, transports, proxy, nvls);
    undo.replace(before, family::free);
    WindowRegistry windows =
        Engine.windows(
            request,
            members,
            bootstrap,
            kernels,
            RemoteLinks.of(peers, routes, transports, bootstrap, kernels, proxy, device),
            nvls.ofWindows(bootstrap));
    undo.push(windows::close);
    Engine engine =
        Engine.of(
            new Engine.Place(
                request,
                members.id(),
                rank,
                known.with(wiring.fleet()),
                layout,
                windows,
                nvls.nvls(),
                members.hosts(),
                machines,
                profilers),
            family,
            kernels,
            new Launcher(kernels),
            choice.described(routes));
    times.begin("space");
    if (engine.queue().direct().wantsSpace()) {
      windows.makeSpace();
    }
    bootstrap.made();
    family.start();
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
    info.tell("ALLOC", () -> "holds %s bytes".formatted(Memory.of(engine)));
    tuned.ifPresent(
        table ->
            info.tell(
                "TUNING",
                () ->
                    "goes by the times of "
                        + request.settings().get(PlanSettings.NCCL4J_COSTS_FILE)));
    return made;
  }

  private Members meet(List<TransportProvider> providers, UsableNets nets) {
    PeerInfo self =
        LocalIdentity.of(
            bootstrap.rank(),
            request.device(),
            request.settings().get(Settings.NCCL_HOSTID),
            nets.names());
    List<String> names = providers.stream().map(TransportProvider::name).toList();
    Hello hello =
        new Hello(self, names, bootstrap.meetingPoint(), Cliques.wish(request), CHANCE.nextLong());
    List<Hello> hellos = new ArrayList<>();
    for (byte[] bytes : bootstrap.allGather(hello.toBytes())) {
      hellos.add(Hello.fromBytes(hellos.size(), bytes));
    }
    refuseSharedGpu(hellos.stream().map(Hello::peer).toList());
    List<byte[]> points = hellos.stream().map(Hello::meetingPoint).toList();
    List<PeerInfo> peers = Cliques.of(request, providers, hellos, bootstrap);
    return new Members(peers, points, "", number(bootstrap.secret(), hellos.get(0).chance()));
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
      Integer other = ranks.put(Hosts.deviceOf(peer), peer.rank());
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

  /** What a rank's kernels know of its communicator. */
  static KernelCommunicatorSpec spec(
      InitRequest request,
      int rank,
      List<PeerInfo> peers,
      ConnectionLayout layout,
      List<Connection> sends,
      List<Connection> recvs,
      Wiring wiring,
      Progress progress,
      Nvls nvls) {
    int nRanks = peers.size();
    String host = peers.get(rank).hostId();
    int local = (int) peers.stream().filter(peer -> peer.hostId().equals(host)).count();
    return new KernelCommunicatorSpec(
        request.name(),
        rank,
        nRanks,
        layout,
        sends,
        recvs,
        wiring.rings(),
        wiring.trees(),
        local,
        progress,
        request.operationDeadline(),
        nvls,
        new LaunchOptions(
            request.settings().get(GpuSettings.NCCL_CGA_CLUSTER_SIZE),
            request.settings().get(GpuSettings.NCCL_LAUNCH_ORDER_IMPLICIT),
            hasOneQueue(Environment.variables()),
            request
                .settings()
                .get(GpuSettings.NCCL4J_PRELOAD_KERNELS)
                .types(Environment.variables())));
  }

  /** Whether the CUDA driver has one queue to a GPU; the driver's variable, which is no setting. */
  static boolean hasOneQueue(Map<String, String> variables) {
    return variables.getOrDefault("CUDA_DEVICE_MAX_CONNECTIONS", "").trim().equals("1");
  }
}
