package org.nccl4j.api.init.probe;

import java.lang.System.Logger;
import java.util.Optional;
import java.util.function.Supplier;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.init.exchange.InitRequest;
import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.plan.Planner;
import org.nccl4j.api.plan.algorithm.CommunicatorProfile;
import org.nccl4j.api.plan.algorithm.TunedTable;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.settings.PlanSettings;
import org.nccl4j.api.window.WindowRegistry;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.Device;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.topo.cluster.CommTopology;

/**
 * One rank's part in the decision whether a communicator's algorithms are measured at its creation.
 * Rank 0 looks for the result of an earlier probe and shares it, or that a probe has failed, in an
 * exchange that every creation has. Where it finds neither and no table has times, all ranks
 * measure. Ranks of several machines do not: their time lies in networks, to which windows do not
 * reach.
 */
public final class Probing {
  /** Setting that has the probe's times precede the library's. */
  private static final int ALWAYS = 2;

  /** Shared by rank 0: nothing is measured. */
  private static final String NO = "-";

  private static final Logger LOG = DebugLog.of("TUNING");

  private final InitRequest request;
  private final InfoLog info;
  private final boolean allowed;
  private final boolean leads;

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
      boolean allowed,
      boolean leads,
      String model,
      ProbeKey key) {
    this.model = model;
    this.request = request;
    this.info = info;
    this.allowed = allowed;
    this.leads = leads;
    this.key = Optional.ofNullable(key);
    this.cache = key == null ? new ProbeCache(Optional.empty()) : ProbeCache.ofUser();
  }

  /** The ranks of a communicator that is being made. */
  public record Ranks(int rank, int nRanks, int hosts, Optional<CommTopology> topology) {}

  /**
   * A rank's part.
   *
   * @param tuned the user's table, which has precedence
   * @param conditions gives the settings that change the times
   */
  public static Probing of(
      InitRequest request, Ranks ranks, Optional<TunedTable> tuned, Supplier<String> conditions) {
    boolean allowed = isAllowed(request, tuned) && ranks.nRanks > 1 && ranks.hosts == 1;
    boolean leads = ranks.rank == 0;
    String model = request.device().name() + suffix(request, tuned);
    boolean looks = allowed && leads && !CommunicatorProfile.isMeasured(model, ranks.nRanks);
    ProbeKey key =
        looks
            ? ProbeKey.of(
                model, ranks.nRanks, CudaDevice.driverVersion(), ranks.topology, conditions.get())
            : null;
    return new Probing(request, request.info(ranks.rank), allowed, leads, model, key);
  }

  private static boolean isAllowed(InitRequest request, Optional<TunedTable> tuned) {
    return request.device().kind() == Device.Kind.CUDA
        && tuned.isEmpty()
        && request.settings().get(PlanSettings.NCCL4J_PROBE) > 0;
  }

  /** Behind the name of a model, so that the library's tables are not the model's. */
  public static String suffix(InitRequest request, Optional<TunedTable> tuned) {
    return isAllowed(request, tuned) && request.settings().get(PlanSettings.NCCL4J_PROBE) == ALWAYS
        ? " by probe"
        : "";
  }

  /**
   * Rank 0's message to all ranks: an earlier result's lines, or that nothing is measured, or "".
   */
  public String shared() {
    return key.map(
            of ->
                cache.hasFailed(of)
                    ? NO
                    : cache
                        .find(of, info)
                        .map(table -> String.join("\n", ProbeTable.text(table, of.text())))
                        .orElse(""))
        .orElse("");
  }

  /** The result that rank 0 has shared. */
  public static Optional<TunedTable> result(String shared) {
    return shared.isEmpty() || shared.equals(NO)
        ? Optional.empty()
        : Optional.of(TunedTable.parse(ProbeTable.NAME, shared.lines().toList()));
  }

  /**
   * True if all ranks measure now; the same on all of them.
   *
   * @param known about all ranks
   * @param shared by rank 0
   */
  public boolean isDue(CommunicatorProfile known, String shared, WindowRegistry windows) {
    return allowed
        && shared.isEmpty()
        && known.tuned().isEmpty()
        && known.isDirect()
        && known.model().equals(model)
        && !CommunicatorProfile.isMeasured(known.model(), known.nRanks())
        && windows.team().size() == known.nRanks();
  }

  /**
   * Measures together with all other ranks, where it {@link #isDue}. A failure is a warning of rank
   * 0, and there are no times.
   */
  public Optional<TunedTable> measure(
      Planner planner, Launcher launcher, WindowRegistry windows, Bootstrap bootstrap) {
    Probe.Result result =
        new Probe(
                bootstrap,
                new EngineBench(request.device(), planner, launcher, windows),
                System::nanoTime)
            .run();
    if (!result.failure().isEmpty()) {
      failed(result);
      return Optional.empty();
    }
    TunedTable table = ProbeTable.of(model, bootstrap.nRanks(), result.times());
    if (leads) {
      key.ifPresent(of -> cache.keep(of, table, info));
      info.tell("TUNING", () -> told(result));
    }
    return Optional.of(table);
  }

  private String told(Probe.Result result) {
    return "has measured %d of %d times in %d ms, kept in %s"
        .formatted(
            result.times().size(),
            result.cells(),
            result.micros() / 1000,
            key.flatMap(cache::file).map(Object::toString).orElse("this process alone"));
  }

  private void failed(Probe.Result result) {
    if (leads) {
      key.ifPresent(cache::failed);
      LOG.log(
          Logger.Level.WARNING,
          "The probe of communicator {0} has no times, and its algorithms are chosen by predicted"
              + " ones: {1}. NCCL4J_PROBE=0 leaves it out, ./nccl tune measures without it.",
          request.name(),
          result.failure());
    }
  }
}
