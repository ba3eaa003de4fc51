package org.nccl4j.api;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.bootstrap.BootstrapId;
import org.nccl4j.api.bootstrap.BootstrapOptions;
import org.nccl4j.api.bootstrap.JoinRequest;
import org.nccl4j.api.bootstrap.LocalBootstrap;
import org.nccl4j.api.bootstrap.TcpBootstrap;
import org.nccl4j.api.bootstrap.root.ProcessIdentity;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.api.init.Initializer;
import org.nccl4j.api.init.WarmUp;
import org.nccl4j.api.init.peers.InitRequest;
import org.nccl4j.api.init.topology.TopologyPrefetch;
import org.nccl4j.api.observe.InitTimes;
import org.nccl4j.api.observe.JobReport;
import org.nccl4j.api.observe.http.JobServer;
import org.nccl4j.api.settings.DebugSettings;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.settings.SettingFile;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.settings.SettingsLog;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.Device;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.kernel.KernelDevice;
import org.nccl4j.device.support.Patience;
import org.nccl4j.operation.Operation;

/** Creates the state of communicators, for the factory methods of {@link Communicator}. */
final class CommunicatorFactory {
  private static final AtomicInteger NUMBER = new AtomicInteger();

  private CommunicatorFactory() {}

  static CommunicatorState join(
      int nRanks, List<UniqueId> ids, int rank, Device device, CommunicatorConfig config) {
    if (nRanks < 1 || rank < 0 || rank >= nRanks) {
      throw new InvalidArgumentException(
          ErrorId.RANK,
          "rank %d of %d ranks".formatted(rank, nRanks),
          "pass at least 1 rank, and one from 0 to nRanks - 1");
    }
    Arguments.notNull(device, "device");
    Arguments.notNull(ids, "list of unique ids").forEach(id -> Arguments.notNull(id, "unique id"));
    Arguments.notNull(config, "configuration");
    List<BootstrapId> roots = ids.stream().map(id -> BootstrapId.decode(id.toBytes())).toList();
    Settings settings;
    JoinRequest request;
    try {
      settings = settings(config);
      checkRanks(nRanks, device);
      WarmUp.end();
      TopologyPrefetch.begin(List.of(device), settings);
      BootstrapOptions options = BootstrapOptions.from(settings);
      request =
          new JoinRequest(nRanks, roots, rank, settings.get(Settings.NCCL4J_INIT_TIMEOUT), options);
    } catch (NcclException e) {
      // The settings that say how to reach the root may be the ones that are wrong.
      TcpBootstrap.tellUnable(nRanks, roots, rank, e, BootstrapOptions.defaults());
      throw e;
    }
    JobServer server = rank == 0 ? server(settings, request) : null;
    return serving(server, () -> List.of(join(request, name(config, roots), device, settings)))
        .get(0);
  }

  /** Refuses more ranks than the device can have, before any rank waits for the others. */
  private static void checkRanks(int nRanks, Device device) {
    int most = ((KernelDevice) device).mostRanks();
    if (nRanks > most) {
      throw new InvalidArgumentException(
          ErrorId.RANK,
          "a communicator of %d ranks on %s".formatted(nRanks, device.name()),
          "use at most %d ranks".formatted(most));
    }
  }

  /** Refuses a communicator that is to grow and would not. */
  static void requireGrowth(CommunicatorState state, int nRanks, CommunicatorConfig changes) {
    Arguments.notNull(changes, "configuration");
    if (nRanks <= state.nRanks()) {
      throw new InvalidArgumentException(
          ErrorId.RANK,
          "communicator %s has %d ranks and cannot grow to %d"
              .formatted(state.name(), state.nRanks(), nRanks),
          "pass the new number of ranks, which must be larger");
    }
  }

  /**
   * Returns the id that a rank of a communicator knows, in a call that all its ranks make.
   *
   * @param known null on ranks that do not know it
   */
  static UniqueId sharedId(CommunicatorState state, UniqueId known) {
    List<UniqueId> all =
        state.exchange("grow", known == null ? new byte[0] : known.toBytes()).stream()
            .filter(bytes -> bytes.length > 0)
            .map(UniqueId::fromBytes)
            .distinct()
            .toList();
    if (all.size() != 1) {
      throw new InvalidArgumentException(
          ErrorId.UNIQUE_ID,
          "the ranks of communicator %s pass %d unique ids to grow"
              .formatted(state.name(), all.size()),
          "pass the same unique id on one or more of them");
    }
    return all.get(0);
  }

  /**
   * The first rank's server, or null if there is to be none. Failing to open it fails all ranks.
   */
  private static JobServer server(Settings settings, JoinRequest request) {
    try {
      return JobServer.open(settings, () -> JobReport.askRoots(request.ids(), request.options()));
    } catch (NcclException e) {
      TcpBootstrap.tellUnable(request, e);
      throw e;
    }
  }

  /**
   * Creates the communicators that a server belongs to; the first of them that closes closes it.
   *
   * @param server null if there is none
   */
  private static List<CommunicatorState> serving(
      JobServer server, Supplier<List<CommunicatorState>> making) {
    boolean made = false;
    try {
      List<CommunicatorState> states = making.get();
      states.get(0).serveBy(server);
      made = true;
      return states;
    } finally {
      if (!made && server != null) {
        server.close();
      }
    }
  }

  private static CommunicatorState join(
      JoinRequest request, String name, Device device, Settings settings) {
    int rank = request.rank();
    int nRanks = request.nRanks();
    List<BootstrapId> roots = request.ids();
    InitRequest own = new InitRequest(name, device, settings);
    InitTimes times = new InitTimes(name, rank, own.job());
    times.begin(InitTimes.BOOTSTRAP);
    long began = System.nanoTime();
    Bootstrap bootstrap = TcpBootstrap.join(request);
    new InfoLog(settings, "rank %d of communicator %s".formatted(rank, name))
        .tell(
            "BOOTSTRAP",
            () ->
                "joined as one of %d in %s through the bootstrap root at %s"
                    .formatted(
                        nRanks,
                        Patience.text(Duration.ofNanos(System.nanoTime() - began)),
                        roots.stream().map(BootstrapId::where).collect(Collectors.joining(", "))));
    return Initializer.create(own, bootstrap, times);
  }

  static List<CommunicatorState> joinAll(List<Device> devices, CommunicatorConfig config) {
    Arguments.notNull(devices, "list of devices")
        .forEach(device -> Arguments.notNull(device, "device"));
    if (devices.isEmpty()) {
      throw new InvalidArgumentException(
          ErrorId.DEVICE,
          "the list of devices is empty",
          "pass a device for each rank; Devices.cuda().absence() says why there is no GPU");
    }
    Settings settings = settings(Arguments.notNull(config, "configuration"));
    devices.forEach(device -> checkRanks(devices.size(), device));
    JobServer server =
        JobServer.open(settings, () -> JobReport.ofThisProcess(devices.size(), Operation.keys()));
    return serving(server, () -> joinAll(devices, config, settings));
  }

  private static List<CommunicatorState> joinAll(
      List<Device> devices, CommunicatorConfig config, Settings settings) {
    WarmUp.end();
    TopologyPrefetch.begin(devices, settings);
    List<Bootstrap> bootstraps =
        LocalBootstrap.create(devices.size(), settings.get(Settings.NCCL4J_INIT_TIMEOUT));
    List<CompletableFuture<CommunicatorState>> making = new ArrayList<>();
    String name =
        config.name().isEmpty() ? Integer.toString(NUMBER.incrementAndGet()) : config.name();
    for (int rank = 0; rank < devices.size(); rank++) {
      Bootstrap bootstrap = bootstraps.get(rank);
      InitRequest request = new InitRequest(name, devices.get(rank), settings);
      making.add(
          AsyncCalls.call(
              "nccl4j-init-" + rank,
              () -> Initializer.create(request, bootstrap),
              CommunicatorFactory::drop));
    }
    return await(making);
  }

  /** All ranks' communicators; if one failed, the others are closed and its error is thrown. */
  private static List<CommunicatorState> await(List<CompletableFuture<CommunicatorState>> making) {
    List<CommunicatorState> made = new ArrayList<>();
    NcclException failure = null;
    for (CompletableFuture<CommunicatorState> each : making) {
      try {
        made.add(each.get());
      } catch (ExecutionException e) {
        failure = failure == null ? asNccl(e.getCause()) : failure;
      } catch (InterruptedException e) {
        making.forEach(left -> left.cancel(true));
        Thread.currentThread().interrupt();
        failure =
            new InvalidUsageException(
                ErrorId.INTERRUPTED,
                "the thread was interrupted while it created communicators",
                "do not interrupt a thread that is creating a communicator",
                e);
        break;
      }
    }
    if (failure != null) {
      making.stream()
          .filter(each -> !each.isCompletedExceptionally())
          .forEach(each -> drop(each.join()));
      throw failure.again();
    }
    return made;
  }

  private static void drop(CommunicatorState unwanted) {
    unwanted.close(Duration.ZERO);
  }

  private static NcclException asNccl(Throwable cause) {
    return cause instanceof NcclException nccl
        ? nccl
        : new InternalErrorException(
            "a communicator could not be created (" + cause + ")", "report this", cause);
  }

  /** Returns the communicator's name, the same on all ranks unless their configurations differ. */
  private static String name(CommunicatorConfig config, List<BootstrapId> roots) {
    return config.name().isEmpty() ? roots.get(0).label() : config.name();
  }

  private static Settings settings(CommunicatorConfig config) {
    Settings settings = Settings.ofProcess(config.settings());
    SettingsLog.open(settings);
    String flight = settings.get(DebugSettings.NCCL4J_FLIGHT_FILE);
    if (!flight.isEmpty()) {
      SettingFile.requireWritable(
          DebugSettings.NCCL4J_FLIGHT_FILE, flight, DebugLog.expand(flight));
    }
    SettingsLog.tell(settings, ProcessIdentity.LIBRARY);
    return settings;
  }
}
