package org.nccl4j.api.init;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.group.OneSidedCalls;
import org.nccl4j.api.group.RankQueue;
import org.nccl4j.api.group.SignatureCheck;
import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.plan.Planner;
import org.nccl4j.api.plan.RankFacts;
import org.nccl4j.api.proxy.ProxyThread;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.window.RegisteredWindow;
import org.nccl4j.api.window.WindowRegistry;
import org.nccl4j.device.Device;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.device.kernel.KernelCommunicator;

/** Everything behind one rank's communicator, from its creation to its end. */
public final class CommunicatorState {
  private static final long POLL_NANOS = 100_000;

  private final InitRequest request;
  private final Bootstrap bootstrap;
  private final KernelCommunicator kernels;
  private final List<Routes.NamedTransport> transports;
  private final NvlsSetup nvls;
  private final Map<Integer, String> routes = new TreeMap<>();
  private final ProxyThread proxy;
  private final Launcher launcher;
  private final Planner planner;
  private final RankQueue queue;
  private final WindowRegistry windows;
  private final OneSidedCalls oneSided;
  private final AtomicBoolean closed = new AtomicBoolean();

  /** What was made of a request so far. */
  record Made(
      InitRequest request,
      Bootstrap bootstrap,
      KernelCommunicator kernels,
      ConnectionLayout layout,
      RankFacts facts,
      List<PeerInfo> peers) {}

  CommunicatorState(
      Made made,
      List<Routes.NamedTransport> transports,
      List<Routes.NamedTransport> chosen,
      ProxyThread proxy,
      NvlsSetup nvls) {
    this.request = made.request();
    this.bootstrap = made.bootstrap();
    this.kernels = made.kernels();
    this.transports = List.copyOf(transports);
    this.nvls = nvls;
    for (int peer = 0; peer < chosen.size(); peer++) {
      if (chosen.get(peer) != null) {
        routes.put(peer, chosen.get(peer).name());
      }
    }
    this.proxy = proxy;
    this.launcher = new Launcher(kernels);
    this.planner =
        new Planner(
            kernels,
            bootstrap.rank(),
            made.facts(),
            made.layout(),
            nvls.nvls(),
            request.settings().get(Settings.NCCL_ALGO),
            request.settings().get(Settings.NCCL_PROTO));
    this.queue =
        new RankQueue(
            request.name(),
            new RankQueue.Rank(bootstrap.rank(), bootstrap.nRanks()),
            request.device(),
            planner,
            launcher,
            signatures());
    this.windows =
        new WindowRegistry(
            new WindowRegistry.Setup(
                request.name(),
                bootstrap.rank(),
                made.peers(),
                request.device(),
                bootstrap,
                request.settings().get(Settings.NCCL_WIN_STRIDE),
                request.initDeadline()),
            kernels::attach);
    this.oneSided = new OneSidedCalls(request.name(), bootstrap.rank(), windows, kernels, launcher);
    bootstrap.onFailure(kernels::abort);
    if (proxy != null) {
      proxy.start(this::fail);
    }
  }

  private SignatureCheck signatures() {
    return request.settings().get(Settings.NCCL_CHECK_MODE).equals("DEBUG_GLOBAL")
        ? new SignatureCheck(kernels, planner, launcher, request.device(), bootstrap.nRanks())
        : null;
  }

  /** Where operations go. */
  public RankQueue queue() {
    return queue;
  }

  /** The windows of this rank. */
  public WindowRegistry windows() {
    return windows;
  }

  /** Where one-sided operations go. */
  public OneSidedCalls oneSided() {
    return oneSided;
  }

  /** Drops a window together with all other ranks. */
  public void deregister(RegisteredWindow window) {
    windows.deregister(window, !kernels.isIdle());
  }

  /** Who decides how they are done. */
  public Planner planner() {
    return planner;
  }

  /** This rank. */
  public int rank() {
    return bootstrap.rank();
  }

  /** All ranks. */
  public int nRanks() {
    return bootstrap.nRanks();
  }

  /** This rank's device. */
  public Device device() {
    return request.device();
  }

  /** For messages and logs. */
  public String name() {
    return request.name();
  }

  /** The transport to each other rank. */
  public Map<Integer, String> routes() {
    return Map.copyOf(routes);
  }

  /** The first failure, or null. */
  public NcclException failure() {
    return kernels.failure();
  }

  /** Ends this rank's operations with an error and tells the others. */
  public void abort() {
    fail(
        new InvalidUsageException(
            "communicator %s was aborted by rank %d".formatted(name(), rank()),
            "make a new communicator"));
  }

  private void fail(NcclException cause) {
    kernels.abort(cause);
    bootstrap.tellFailure(cause);
  }

  private boolean isIdle() {
    return kernels.isIdle() && (proxy == null || proxy.isIdle() || kernels.failure() != null);
  }

  /** Waits for this rank's operations and frees everything. */
  public void close() {
    if (!closed.compareAndSet(false, true)) {
      return;
    }
    launcher.close();
    long endNanos = System.nanoTime() + request.operationDeadline().toNanos();
    while (!isIdle() && System.nanoTime() - endNanos < 0) {
      LockSupport.parkNanos(POLL_NANOS);
    }
    if (kernels.failure() != null) {
      bootstrap.tellFailure(kernels.failure());
    }
    if (proxy != null) {
      proxy.close();
    }
    kernels.close();
    windows.close();
    nvls.close();
    transports.forEach(named -> named.transport().close());
    bootstrap.close();
  }
}
