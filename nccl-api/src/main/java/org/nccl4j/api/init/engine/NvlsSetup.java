package org.nccl4j.api.init.engine;

import java.lang.System.Logger;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.init.connect.TransportContextImpl;
import org.nccl4j.api.init.peers.HostLayout;
import org.nccl4j.api.init.peers.InitRequest;
import org.nccl4j.api.init.probe.SwitchProbe;
import org.nccl4j.api.init.topology.ChannelGraphs;
import org.nccl4j.api.multicast.Multicast;
import org.nccl4j.api.multicast.MulticastProvider;
import org.nccl4j.api.multicast.MulticastProvider.Offer;
import org.nccl4j.api.multicast.MulticastProvider.Team;
import org.nccl4j.api.plan.NvlsAccess;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.plan.cost.SwitchSpeed;
import org.nccl4j.api.registry.TransportRegistry;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.window.WindowMulticast;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.kernel.MulticastObject.Form;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.Tree;
import org.nccl4j.device.symmetric.ShareableMemory;

/**
 * NVLS of a communicator. All ranks exchange their requirements; if these are equal, they make it
 * together: with the communicator where the settings ask for NVLS, else at the first operation that
 * takes it. One line of the log says whether NVLS is used and why; a warning of rank 0, if NVLS is
 * requested and not available.
 */
public final class NvlsSetup implements AutoCloseable {
  private static final Logger LOG = DebugLog.of("NVLS");
  private static final String SEPARATOR = "\t";

  private final InitRequest request;
  private final Bootstrap bootstrap;

  /** Null where it is not made at an operation. */
  private LazyNvls making;

  /** Has the windows that there are covered. */
  private volatile Consumer<MulticastProvider.Exchange> windows = exchange -> {};

  /** Null where the switch is not compared with other algorithms. */
  private SwitchTrial trial;

  // Set together, on one thread; null as long as there is no NVLS.
  private volatile Multicast multicast;
  private volatile Nvls nvls;
  private volatile NvlsTeardown teardown;

  private NvlsSetup(InitRequest request, Bootstrap bootstrap) {
    this.request = request;
    this.bootstrap = bootstrap;
  }

  /** The fewest ranks of a machine that may use NVLS: fewer where the settings ask for it. */
  public static int fewestRanks(Settings settings) {
    return NvlsDecision.fewestRanks(NvlsDecision.absent(settings).wanted());
  }

  /** Returns the setup of a communicator without NVLS. */
  public static NvlsSetup none() {
    return new NvlsSetup(null, null);
  }

  /**
   * The fewest ranks on each machine with which a communicator uses NVLS.
   *
   * @param device of one of the ranks
   */
  public static int fewestRanks(Device device, Settings settings) {
    return NvlsDecision.fewestRanks(
        NvlsDecision.offer(TransportRegistry.multicast(), device, settings));
  }

  /**
   * A rank's answer.
   *
   * @param offer of its provider
   * @param waits whether NVLS is to be made at an operation only
   * @param speed what {@link SwitchProbe#shared} says
   */
  private record Say(Offer offer, boolean waits, String speed) {}

  /**
   * Takes part in the decision and, if it is yes, in the making or its preparation. Every rank
   * calls it.
   *
   * @param points meeting points of all ranks, by rank
   * @param facts about all ranks
   * @param probe this rank's part in the decision whether the switch is timed
   */
  public static NvlsSetup open(
      InitRequest request,
      TransportContextImpl context,
      List<byte[]> points,
      ChannelGraphs graphs,
      CommunicatorProfile facts,
      SwitchProbe probe,
      Bootstrap bootstrap) {
    Settings settings = request.settings();
    List.of(
            Settings.NCCL4J_NVLS_MODE,
            Settings.NCCL4J_NVLS_CREATE,
            Settings.NCCL4J_NVLS_TEST,
            Settings.NCCL_NVLS_ENABLE,
            Settings.NCCL_NVLS_NCHANNELS,
            Settings.NCCL_NVLS_CHUNKSIZE)
        .forEach(settings::get);
    NvlsSetup setup = new NvlsSetup(request, bootstrap);
    Optional<MulticastProvider> provider = TransportRegistry.multicast();
    Offer mine = NvlsDecision.offer(provider, request.device(), settings);
    String speed = mine.form().isEmpty() ? "" : probe.shared();
    List<Say> says =
        bootstrap.allGather(encode(new Say(mine, waits(settings), speed))).stream()
            .map(NvlsSetup::decode)
            .toList();
    List<Offer> offers = says.stream().map(Say::offer).toList();
    NvlsDecision decision = NvlsDecision.of(context.peers(), offers, graphs::nvlsChannels);
    boolean wanted = decision.wanted();
    if (decision.refusal() != null) {
      setup.tellNotUsed(wanted, decision.refusal());
      return setup;
    }
    HostLayout hosts = HostLayout.of(context.peers());
    Form form = mine.form().orElseThrow();
    NvlsTeams teams = NvlsTeams.of(request, hosts, graphs, facts);
    if (!wanted) {
      setup.trial =
          new SwitchTrial(says.get(0).speed(), probe, TuningSettings.filter(settings), facts);
    }
    Team team = teams.of(context.rank());
    MulticastProvider by = provider.orElseThrow();
    Maker maker = exchange -> by.open(context, team, form, exchange);
    Where where = new Where(context, hosts.count(), teams.trees(context.rank()));
    if (!says.stream().allMatch(Say::waits)) {
      setup.make(maker, where, exchange(bootstrap));
      return setup;
    }
    setup.prepare(
        points, maker, where, by.outline(context, team, form, exchange(bootstrap)), wanted);
    return setup;
  }

  /** Prepares a making at an operation, with all other ranks. */
  private void prepare(
      List<byte[]> points,
      Maker maker,
      Where where,
      MulticastProvider.Outline outline,
      boolean wanted) {
    if (outline.nvls().isEmpty()) {
      tellNotUsed(wanted, outline.reason());
      return;
    }
    Nvls place = where.of(outline.nvls().get());
    String slow =
        trial == null || trial.speed().isEmpty() ? "" : trial.slowness(place, exchange(bootstrap));
    if (!slow.isEmpty()) {
      tellNotUsed(false, slow);
      return;
    }
    making =
        new LazyNvls(
            request.name(),
            bootstrap,
            points,
            place,
            exchange -> make(maker, where, exchange),
            this::giveUp);
    tell(
        "its memory is made at the first operation that it is chosen for (%s)"
            .formatted(outline.reason()),
        "may be used");
  }

  /** Makes the memory. */
  @FunctionalInterface
  private interface Maker {
    Multicast open(MulticastProvider.Exchange exchange);
  }

  /** A rank's place among several machines. */
  private record Where(TransportContextImpl context, int machines, List<Tree> trees) {
    Nvls of(Nvls onItsMachine) {
      return onItsMachine.among(machines, trees);
    }
  }

  /** Makes the memory in step with all other ranks. */
  private Optional<Nvls> make(Maker maker, Where where, MulticastProvider.Exchange exchange) {
    Multicast made = maker.open(exchange);
    multicast = made;
    if (made.nvls().isEmpty()) {
      tellNotUsed(true, made.reason());
      return Optional.empty();
    }
    Nvls place = where.of(made.nvls().get());
    if (trial != null && !isFast(made, place, exchange)) {
      made.close();
      multicast = null;
      return Optional.empty();
    }
    teardown = teardown(where.context, exchange, made);
    if (where.machines == 1) {
      windows.accept(exchange);
    }
    nvls = place;
    tell(made.reason() + (trial == null ? "" : trial.text()), "is used");
    return Optional.of(nvls);
  }

  /** True if NVLS is faster than all else for some operations, as far as that is measured. */
  private boolean isFast(Multicast made, Nvls place, MulticastProvider.Exchange exchange) {
    if (trial.isDue()) {
      Multicast.Speed measured = made.time(exchange);
      if (measured.gigabytes().isEmpty()) {
        tellNotUsed(true, measured.reason());
        return false;
      }
      trial.measured(measured.gigabytes().getAsDouble());
    }
    String slow = trial.speed().isEmpty() ? "" : trial.slowness(place, exchange);
    if (!slow.isEmpty()) {
      tellNotUsed(trial.isNews(), slow);
    }
    return slow.isEmpty();
  }

  /** Learns what a probe of the other algorithms has measured. */
  public void knowing(CommunicatorProfile facts) {
    if (trial != null) {
      trial.knowing(facts);
    }
  }

  /**
   * The making was given up on all ranks. Whatever this rank has made is freed when the
   * communicator is closed: its thread may still be at it.
   */
  private void giveUp(String reason) {
    tellNotUsed(true, reason);
  }

  /** Logs in one line why NVLS is not used: a warning of rank 0 if that is worth it. */
  private void tellNotUsed(boolean warns, String reason) {
    Logger.Level level =
        bootstrap.rank() != 0
            ? Logger.Level.DEBUG
            : warns ? Logger.Level.WARNING : request.logLevel("INIT", "NVLS");
    LOG.log(
        level,
        "communicator {0} is without NVLS: NVLink SHARP is not used, because {1}",
        request.name(),
        reason);
  }

  private void tell(String reason, String use) {
    LOG.log(
        request.logLevel("INIT", "NVLS"),
        "rank {0} of communicator {1}: NVLink SHARP {2}, because all ranks have it: {3}",
        bootstrap.rank(),
        request.name(),
        use,
        reason);
  }

  /** True if NVLS is to be made at an operation: by default unless the settings ask for NVLS. */
  private static boolean waits(Settings settings) {
    return switch (settings.get(Settings.NCCL4J_NVLS_CREATE)) {
      case "creation" -> false;
      case "operation" -> true;
      default ->
          settings.get(Settings.NCCL4J_NVLS_MODE).equals("auto")
              && !TuningSettings.filter(settings).demandsNvls();
    };
  }

  /** Returns the bootstrap's own exchange. */
  static MulticastProvider.Exchange exchange(Bootstrap bootstrap) {
    return new MulticastProvider.Exchange() {
      @Override
      public List<byte[]> allGather(byte[] mine) {
        return bootstrap.allGather(mine);
      }

      @Override
      public long endNanos() {
        return bootstrap.exchangeEnd();
      }
    };
  }

  private static byte[] encode(Say say) {
    String form = say.offer.form().map(Form::name).orElse("");
    return String.join(
            SEPARATOR,
            form,
            Boolean.toString(say.offer.wanted()),
            Boolean.toString(say.waits),
            say.speed,
            say.offer.reason())
        .getBytes(StandardCharsets.UTF_8);
  }

  private static Say decode(byte[] bytes) {
    String[] parts = new String(bytes, StandardCharsets.UTF_8).split(SEPARATOR, 5);
    Optional<Form> form =
        List.of(Form.values()).stream().filter(f -> f.name().equals(parts[0])).findFirst();
    return new Say(
        new Offer(
            form,
            parts.length > 1 && Boolean.parseBoolean(parts[1]),
            parts.length > 4 ? parts[4] : "runs another version of nccl4j"),
        parts.length > 2 && Boolean.parseBoolean(parts[2]),
        parts.length > 3 ? parts[3] : "");
  }

  private static NvlsTeardown teardown(
      TransportContextImpl context, MulticastProvider.Exchange exchange, Multicast made) {
    try {
      return NvlsTeardown.of(context.peers(), context.rank(), exchange);
    } catch (RuntimeException | Error e) {
      made.close();
      throw e;
    }
  }

  /**
   * Frees what a rank holds, this among it: at once where there is no NVLS; after a failure when
   * all ranks of this process have come; else when no rank of any process needs this one's memory
   * any more.
   *
   * @param patience how long others are waited for
   */
  void leave(Duration patience, boolean failed, Runnable free) {
    Nvls used = nvls();
    if (used == null) {
      free.run();
    } else {
      teardown.leave(bootstrap, patience, failed, used.layout().bytes(), free);
    }
  }

  /** Returns this rank's NVLS for its planners. */
  public NvlsAccess access() {
    NvlsAccess made = making == null ? NvlsAccess.of(nvls) : making;
    return trial == null ? made : new Timed(made, trial);
  }

  /** NVLS by a switch whose speed is or will be measured. */
  private record Timed(NvlsAccess made, SwitchTrial trial) implements NvlsAccess {
    @Override
    public Nvls place() {
      return made.place();
    }

    @Override
    public Optional<Nvls> make() {
      return made.make();
    }

    @Override
    public Optional<SwitchSpeed> speed() {
      return trial.speed();
    }
  }

  /** Returns this rank's place once its memory is made and all ranks have theirs; else null. */
  Nvls nvls() {
    Nvls place = making == null ? nvls : making.place();
    return place == null || !place.isMade() ? null : place;
  }

  /** True if a call of another rank is for this. */
  public boolean isFor(byte[] request) {
    return making != null && LazyNvls.isFor(request);
  }

  /** Takes such a call. */
  public void called(byte[] call, Consumer<byte[]> answer) {
    making.called(call, answer);
  }

  /**
   * The communicator is made: takes part in a making from now on.
   *
   * @param onFailure told of an error after which the ranks are not together any more
   */
  void start(Consumer<NcclException> onFailure) {
    if (making != null) {
      making.start(onFailure);
    }
  }

  /** Ends a making; returns whether no thread works on it any more. */
  boolean stop() {
    return making == null || making.stop();
  }

  /** Returns the maker of multicast access to windows; null where there is and will be none. */
  public WindowMulticast ofWindows() {
    Nvls place = access().place();
    return place == null || place.machines() > 1 ? null : new OfWindows();
  }

  /** Makes access to windows once there is a multicast object. */
  private final class OfWindows implements WindowMulticast {
    @Override
    public boolean isMade() {
      return nvls() != null;
    }

    @Override
    public Multicast.Cover cover(ShareableMemory own, List<DeviceMemory> views) {
      return cover(own, views, exchange(bootstrap));
    }

    @Override
    public Multicast.Cover cover(
        ShareableMemory own, List<DeviceMemory> views, MulticastProvider.Exchange exchange) {
      return multicast.cover(own, views, exchange);
    }
  }

  /** Learns of the windows that are covered when the memory is made at an operation. */
  public void covering(Consumer<MulticastProvider.Exchange> cover) {
    windows = cover;
  }

  @Override
  public void close() {
    stop();
    Multicast made = multicast;
    if (made != null) {
      made.close();
    }
  }
}
