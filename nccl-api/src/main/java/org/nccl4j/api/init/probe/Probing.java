package org.nccl4j.api.init.probe;

import java.lang.System.Logger;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.init.peers.InitRequest;
import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.plan.Planner;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.plan.cost.TunedTable;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.settings.PlanSettings;
import org.nccl4j.api.spi.Setting;
import org.nccl4j.api.window.WindowRegistry;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.Device;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.topo.cluster.CommTopology;

/**
 * One rank's part in the decision whether a communicator's algorithms are measured at its creation.
 * Rank 0 looks for the result of an earlier probe and shares it, or that a probe has failed, in an
 * exchange that every creation has. If there is neither and no table has times, all ranks measure;
 * GPUs that reach each other over neither NVLink nor PCIe measure only connections. Ranks of
 * several machines do not measure: networks take most of their time, and windows do not span
 * machines.
 */
public final class Probing {
  /** Setting that has the probe's times precede the library's. */
  private static final int ALWAYS = 2;

  /** Shared by rank 0: nothing is measured. */
  private static final String NO = "-";

  /** Begins what rank 0 shares: the times to which all ranks add now. */
  private static final String UNFINISHED = "# unfinished";

  private static final Logger LOG = DebugLog.of("TUNING");

  private final InitRequest request;
  private final InfoLog info;
  private final boolean leads;

  /** Why this rank knows that nothing is measured, or "". */
  private final String obstacle;

  /**
   * Of GPUs that have windows and one rank each; {@link CommunicatorProfile#model} of others
   * differs.
   */
  private final String model;

  private final Optional<ProbeKey> key;
  private final ProbeCache cache;

  private Probing(
      InitRequest request,
      InfoLog info,
      boolean leads,
      String obstacle,
      String model,
      ProbeKey key) {
    this.model = model;
    this.request = request;
    this.info = info;
    this.leads = leads;
    this.obstacle = obstacle;
    this.key = Optional.ofNullable(key);
    this.cache = key == null ? new ProbeCache(Optional.empty()) : ProbeCache.ofUser();
  }

  /**
   * The ranks of a communicator that is being made.
   *
   * @param transports between them, as text
   */
  public record Ranks(
      int rank, int nRanks, int hosts, Optional<CommTopology> topology, String transports) {}

  /**
   * A rank's part.
   *
   * @param tuned the user's table, which has precedence
   * @param conditions gives the settings that change the times
   */
  public static Probing of(
      InitRequest request, Ranks ranks, Optional<TunedTable> tuned, Supplier<String> conditions) {
    boolean leads = ranks.rank == 0;
    String model = request.device().name() + suffix(request, tuned);
    String obstacle =
        ProbeObstacle.of(
            request.settings(),
            tuned,
            new ProbeObstacle.Ranks(
                request.device().kind(),
                request.device().name(),
                ranks.nRanks,
                ranks.hosts,
                ProbeObstacle.ofWindows(request.settings(), request.device())));
    ProbeKey key =
        leads && obstacle.isEmpty()
            ? ProbeKey.of(
                model,
                ranks.nRanks,
                CudaDevice.driverVersion(),
                conditions.get(),
                ranks.topology,
                ranks.transports)
            : null;
    return new Probing(request, request.info(ranks.rank), leads, obstacle, model, key);
  }

  private static boolean isAllowed(InitRequest request, Optional<TunedTable> tuned) {
    return request.device().kind() == Device.Kind.CUDA
        && tuned.isEmpty()
        && request.settings().get(PlanSettings.NCCL4J_PROBE) > 0;
  }

  /** Behind the name of a model, so that the library's tables are not the model's. */
  public static String suffix(InitRequest request, Optional<TunedTable> tuned) {
    return isAllowed(request, tuned)
        ? suffix(request.settings().get(PlanSettings.NCCL4J_PROBE))
        : "";
  }

  /** The same where there is no user's table. */
  static String suffix(int probe) {
    return probe == ALWAYS ? " by probe" : "";
  }

  /**
   * Rank 0's message to all ranks: an earlier result's lines, or that nothing is measured, or "".
   */
  public String shared() {
    return key.map(this::shared).orElse("");
  }

  private String shared(ProbeKey of) {
    boolean failed = cache.hasFailed(of);
    Optional<TunedTable> finished = failed ? Optional.empty() : cache.find(of, info);
    if (finished.isPresent()) {
      return text(of, finished.get());
    }
    Optional<TunedTable> unfinished = cache.find(of.unfinished(), info);
    return failed
        ? unfinished.flatMap(ProbeTable::soFar).map(table -> text(of, table)).orElse(NO)
        : unfinished.map(table -> UNFINISHED + "\n" + text(of, table)).orElse("");
  }

  private static String text(ProbeKey of, TunedTable table) {
    return String.join("\n", ProbeTable.text(table, of.text()));
  }

  /** The result that rank 0 has shared, as far as it goes. */
  public static Optional<TunedTable> result(String shared) {
    Optional<TunedTable> parsed = parsed(shared);
    return (isUnfinished(shared) ? parsed.flatMap(ProbeTable::soFar) : parsed)
        .map(TunedTable::ofProbe);
  }

  private static Optional<TunedTable> parsed(String shared) {
    return shared.isEmpty() || shared.equals(NO)
        ? Optional.empty()
        : Optional.of(TunedTable.parse(ProbeTable.NAME, shared.lines().toList()));
  }

  private static boolean isUnfinished(String shared) {
    return shared.startsWith(UNFINISHED);
  }

  /**
   * True if all ranks measure now; the same on all of them. If not, rank 0 logs the reason.
   *
   * @param known about all ranks
   * @param shared by rank 0
   */
  public boolean isDue(CommunicatorProfile known, String shared) {
    if (!shared.isEmpty() && !shared.equals(NO) && !isUnfinished(shared)) {
      return false;
    }
    String reason = obstacle.isEmpty() ? obstacle(known, shared) : obstacle;
    if (leads && !reason.isEmpty() && known.kind() == Device.Kind.CUDA) {
      info.tell("TUNING", () -> "does not probe, because " + reason);
    }
    return reason.isEmpty();
  }

  private String obstacle(CommunicatorProfile known, String shared) {
    return shared.equals(NO)
        ? "a probe of this process has failed, or nothing that it measured counts"
        : ProbeObstacle.of(known, model);
  }

  /**
   * Measures together with all other ranks, where it {@link #isDue}. A failure is a warning of rank
   * 0, and there are no times but earlier ones.
   *
   * @param shared by rank 0
   * @param reach whether all ranks reach each other's memory
   */
  public Optional<TunedTable> measure(
      String shared,
      Planner planner,
      Launcher launcher,
      WindowRegistry windows,
      boolean reach,
      Bootstrap bootstrap) {
    boolean all = reach && windows.team().size() == bootstrap.nRanks();
    Probe.Result result =
        new Probe(
                bootstrap,
                new EngineBench(request.device(), planner, launcher, windows, all),
                cells -> earlier(shared, bootstrap.nRanks(), cells),
                request.settings().get(PlanSettings.NCCL4J_PROBE_TIME),
                System::nanoTime)
            .run();
    if (!result.failure().isEmpty()) {
      failed(result);
      return Optional.empty();
    }
    TunedTable times = ProbeTable.unfinished(model, bootstrap.nRanks(), result.all());
    if (leads) {
      key.ifPresent(of -> keep(of, times, result));
      info.tell("TUNING", () -> told(result, all));
    }
    return counting(times, result).map(TunedTable::ofProbe);
  }

  /** The times that count; empty without any. */
  private static Optional<TunedTable> counting(TunedTable times, Probe.Result result) {
    return result.isComplete()
        ? Optional.of(ProbeTable.whole(times)).filter(table -> !table.lines().isEmpty())
        : ProbeTable.soFar(times);
  }

  private static Map<ProbeCell, Double> earlier(String shared, int nRanks, List<ProbeCell> cells) {
    return isUnfinished(shared)
        ? ProbeTable.times(parsed(shared).orElseThrow(), nRanks, cells)
        : Map.of();
  }

  /**
   * Times of busy GPUs count for this process alone. What a probe had no time for is left to the
   * next creation, or to the next process if this one measures hardly more.
   */
  private void keep(ProbeKey of, TunedTable times, Probe.Result result) {
    Probe.Use use = use(result);
    Optional<TunedTable> counting = counting(times, result);
    if (use == Probe.Use.FINAL && counting.isPresent()) {
      cache.keep(of, counting.get(), info);
      cache.forget(of.unfinished(), info);
    } else if (use != Probe.Use.THIS_PROCESS && !times.lines().isEmpty()) {
      cache.keep(of.unfinished(), times, info);
    }
    if (use == Probe.Use.THIS_PROCESS || use == Probe.Use.NEXT_PROCESS) {
      cache.keepHere(of, counting);
    }
  }

  private Probe.Use use(Probe.Result result) {
    Setting<Duration> budget = PlanSettings.NCCL4J_PROBE_TIME;
    return result.use(request.settings().get(budget).compareTo(budget.defaultValue()) >= 0);
  }

  private String told(Probe.Result result, boolean windows) {
    return "has measured %d of %d times%s%s%s in %d ms, %s"
        .formatted(
            result.all().size(),
            result.cells(),
            result.known().isEmpty()
                ? ""
                : ", %d of them earlier,".formatted(result.known().size()),
            result.leftOut() == 0
                ? ""
                : ", without %d that follow from smaller sizes,".formatted(result.leftOut()),
            windows ? "" : " over connections only, since the ranks have no common windows,",
            result.micros() / 1000,
            kept(result));
  }

  private String kept(Probe.Result result) {
    if (result.isDisturbed()) {
      return "not kept, since two measurements of the same differ by a factor of %.1f: the GPUs are busy with other work, and the next process measures again"
          .formatted(result.spread());
    }
    String next =
        switch (use(result)) {
          case NEXT_CREATION -> ", and the next creation measures the others";
          case NEXT_PROCESS -> ", and the next process measures others";
          default -> "";
        };
    return "kept in "
        + key.flatMap(of -> cache.file(next.isEmpty() ? of : of.unfinished()))
            .map(Object::toString)
            .orElse("this process alone")
        + next;
  }

  private void failed(Probe.Result result) {
    if (leads) {
      key.ifPresent(cache::failed);
      LOG.log(
          Logger.Level.WARNING,
          "The probe of communicator {0} failed, and algorithms are chosen by predicted times:"
              + " {1}. NCCL4J_PROBE=0 disables the probe, ./nccl tune measures without it.",
          request.name(),
          result.failure());
    }
  }
}
