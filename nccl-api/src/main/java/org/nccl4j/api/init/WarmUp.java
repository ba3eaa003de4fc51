package org.nccl4j.api.init;

import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.bootstrap.BootstrapId;
import org.nccl4j.api.bootstrap.BootstrapOptions;
import org.nccl4j.api.bootstrap.BootstrapRoot;
import org.nccl4j.api.bootstrap.JoinRequest;
import org.nccl4j.api.bootstrap.LocalBootstrap;
import org.nccl4j.api.bootstrap.TcpBootstrap;
import org.nccl4j.api.init.peers.InitRequest;
import org.nccl4j.api.init.topology.TopologyPrefetch;
import org.nccl4j.api.settings.GpuSettings;
import org.nccl4j.api.settings.PlanSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.Device;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.cuda.CudaDevices;
import org.nccl4j.device.cuda.driver.StartupHook;
import org.nccl4j.device.host.HostDevice;

/**
 * Creates and closes a communicator of two ranks on the host while the driver starts and the
 * program creates the GPUs' contexts: the first communicator of a process takes most of its time to
 * load, link and interpret code, most of which is the same on the host. Then searches the graphs of
 * this machine ({@link TopologyPrefetch}), and runs the bootstrap of two ranks over the loopback
 * interface. It makes no driver call and opens no plug-in; it ignores the settings of the process.
 */
public final class WarmUp implements StartupHook {
  private static final System.Logger LOG = DebugLog.of("INIT");
  private static final int RANKS = 2;
  private static final Duration PATIENCE = Duration.ofSeconds(10);

  /** Transports and networks of ours, and plug-ins of nobody. */
  private static final Map<String, String> SETTINGS =
      Map.of(
          Settings.NCCL4J_TRANSPORTS.name(), "P2P,SHM,NET",
          Settings.NCCL_NET.name(), "Socket",
          PlanSettings.NCCL_TUNER_PLUGIN.name(), "none",
          Settings.NCCL_PROFILER_PLUGIN.name(), "none",
          Settings.NCCL_NVLS_ENABLE.name(), "0");

  /** True if it is too late, since a creation has begun. */
  private static volatile boolean over;

  /** Called by the service loader. */
  public WarmUp() {}

  /** A creation begins, and shall have the processors: no further part is warmed up. */
  public static void end() {
    over = true;
  }

  @Override
  public void prepare() {
    Settings process = Settings.ofProcess(Map.of());
    if (over || !process.get(GpuSettings.NCCL4J_WARMUP)) {
      return;
    }
    process.hints(); // looked at, not told: nobody has asked for a communicator yet
    List<Bootstrap> bootstraps = LocalBootstrap.create(RANKS, PATIENCE);
    CompletableFuture<Void> other =
        CompletableFuture.runAsync(() -> play(bootstraps.get(1)), WarmUp::start);
    play(bootstraps.get(0));
    other.join();
    List<Device> gpus = List.copyOf(CudaDevices.probe().list());
    if (!over) {
      TopologyPrefetch.begin(gpus, process);
      meet();
    }
  }

  /** Lets two ranks meet over sockets, as the ranks of several processes do. */
  private static void meet() {
    BootstrapOptions options =
        BootstrapOptions.from(Settings.alone(Map.of(Settings.NCCL_SOCKET_IFNAME.name(), "=lo")));
    BootstrapId id = BootstrapRoot.create(options, PATIENCE);
    CompletableFuture<Void> other =
        CompletableFuture.runAsync(() -> meet(id, 1, options), WarmUp::start);
    meet(id, 0, options);
    other.join();
  }

  private static void meet(BootstrapId id, int rank, BootstrapOptions options) {
    try {
      Bootstrap bootstrap = TcpBootstrap.join(new JoinRequest(RANKS, id, rank, PATIENCE, options));
      bootstrap.barrier();
      bootstrap.made();
      bootstrap.close();
    } catch (NcclException e) {
      LOG.log(Level.DEBUG, "The warm-up of the bootstrap failed: {0}", e);
    }
  }

  private static void start(Runnable body) {
    Thread thread = new Thread(body, "nccl4j-warmup");
    thread.setDaemon(true);
    thread.start();
  }

  private static void play(Bootstrap bootstrap) {
    try {
      InitRequest request =
          new InitRequest("warm-up", HostDevice.instance(), Settings.alone(SETTINGS));
      Initializer.create(request, bootstrap).close(PATIENCE);
    } catch (NcclException e) {
      LOG.log(Level.DEBUG, "The warm-up of communicator creation failed: {0}", e);
    }
  }
}
