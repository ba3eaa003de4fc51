package org.nccl4j.api.init.probe;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.function.Supplier;
import org.nccl4j.api.init.peers.InitRequest;
import org.nccl4j.api.plan.cost.CostPoints;
import org.nccl4j.api.plan.cost.TunedTable;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.settings.PlanSettings;
import org.nccl4j.device.Device;
import org.nccl4j.device.cuda.CudaDevice;

/**
 * One rank's part in the decision whether the switch is timed before NVLS is used. Rank 0 looks for
 * the result of an earlier measurement on machines like this one and shares it, or that all ranks
 * measure. Results are kept beside those of {@link Probing}, as the time of one all-reduce.
 *
 * <p>A switch that is slow once may have been measured on busy GPUs. So that result is kept apart,
 * as a doubt, by which this process goes, and the next process measures again. If the switch is
 * slow then too, the faster result is kept for good.
 */
public final class SwitchProbe {
  /** Shared by rank 0: nothing is measured. */
  private static final String NO = "-";

  /** Shared by rank 0: all ranks measure. */
  private static final String DUE = "?";

  private static final long BYTES = 1L << 30;
  private static final String SWITCH = "the switch";
  private static final String LATER =
      ". The GPUs may have been busy, so a later process measures again";

  /**
   * The age from which on a doubt counts as another measurement: processes of one job measure at
   * the same time, when all GPUs may be busy.
   */
  private static final Duration LEAST_AGE = Duration.ofMinutes(10);

  private final InfoLog info;
  private final int nRanks;

  /** Makes the key; null where nothing is measured, and on other ranks than 0. */
  private final Supplier<ProbeKey> key;

  private final Supplier<ProbeCache> cache;

  SwitchProbe(InfoLog info, int nRanks, Supplier<ProbeKey> key, Supplier<ProbeCache> cache) {
    this.info = info;
    this.nRanks = nRanks;
    this.key = key;
    this.cache = cache;
  }

  /**
   * A rank's part.
   *
   * @param tuned the user's table, which has precedence
   * @param conditions gives the settings that change the times
   */
  public static SwitchProbe of(
      InitRequest request,
      Probing.Ranks ranks,
      Optional<TunedTable> tuned,
      Supplier<String> conditions) {
    boolean leads =
        ranks.rank() == 0
            && ranks.hosts() == 1
            && tuned.isEmpty()
            && request.device().kind() == Device.Kind.CUDA
            && request.settings().get(PlanSettings.NCCL4J_PROBE) > 0;
    Supplier<ProbeKey> key =
        () ->
            ProbeKey.of(
                request.device().name() + " by " + SWITCH,
                ranks.nRanks(),
                CudaDevice.driverVersion(),
                conditions.get(),
                ranks.topology(),
                SWITCH);
    return new SwitchProbe(
        request.info(ranks.rank()), ranks.nRanks(), leads ? key : null, ProbeCache::ofUser);
  }

  /** Rank 0's message to all ranks. Reads a file. */
  public String shared() {
    return key == null ? NO : found().map(table -> Double.toString(gigabytes(table))).orElse(DUE);
  }

  /** The result that was kept for good, else what is in doubt for this process. */
  private Optional<TunedTable> found() {
    ProbeCache kept = cache.get();
    ProbeKey doubt = key.get().inDoubt();
    Optional<TunedTable> forGood = kept.find(key.get(), info);
    return forGood.isEmpty() && kept.knows(doubt) ? kept.find(doubt, info) : forGood;
  }

  /** The speed that rank 0 has shared, in GB/s; empty without one. */
  public static OptionalDouble known(String shared) {
    return shared.isEmpty() || shared.equals(NO) || shared.equals(DUE)
        ? OptionalDouble.empty()
        : OptionalDouble.of(Double.parseDouble(shared));
  }

  /** True if all ranks measure. */
  public static boolean isDue(String shared) {
    return shared.equals(DUE);
  }

  /**
   * Keeps the result of a measurement; other ranks than 0 keep none.
   *
   * @param isSlow whether NVLS is of no use at this speed
   * @return how to measure again, as sentences behind a reason; "" on other ranks than 0
   */
  public String keep(double gigabytes, boolean isSlow) {
    if (key == null) {
      return "";
    }
    ProbeCache kept = cache.get();
    ProbeKey of = key.get();
    if (!isSlow) {
      kept.keep(of, table(of, gigabytes), info);
      return "";
    }
    ProbeKey doubt = of.inDoubt();
    boolean isOwn = kept.knows(doubt);
    Optional<TunedTable> earlier = kept.find(doubt, info);
    boolean isRepeated =
        !isOwn
            && earlier.isPresent()
            && kept.age(doubt).filter(age -> age.compareTo(LEAST_AGE) >= 0).isPresent();
    if (isRepeated) {
      kept.keep(of, table(of, Math.max(gigabytes, gigabytes(earlier.get()))), info);
      return ", not for the first time" + again();
    }
    if (earlier.isEmpty()) {
      kept.keep(doubt, table(of, gigabytes), info);
    }
    return LATER;
  }

  /** True if this process has said already that the switch may be slow. */
  public boolean isInDoubt() {
    return key != null && cache.get().knows(key.get().inDoubt());
  }

  /** How to measure again where a result was found, as a sentence behind a reason. */
  public String again() {
    if (key == null) {
      return "";
    }
    ProbeCache kept = cache.get();
    ProbeKey of = key.get();
    return kept.find(of, info).isEmpty() && isInDoubt()
        ? LATER
        : kept.file(of).map(file -> ". Delete " + file + " to measure again").orElse("");
  }

  private TunedTable table(ProbeKey of, double gigabytes) {
    double time = carried() / (gigabytes * 1e3);
    String line = nRanks + " AllReduce NVLS Simple" + CostPoints.write(Map.of(BYTES, time));
    return new TunedTable(ProbeTable.NAME, of.model(), List.of(line));
  }

  /** The speed by which an all-reduce takes the time that was kept. */
  private double gigabytes(TunedTable table) {
    String[] words = table.lines().get(0).split(" ");
    return carried() / (CostPoints.read(words, 4).lastEntry().getValue() * 1e3);
  }

  /** Bytes over a GPU's links, one way. */
  private double carried() {
    return (1 + 1.0 / nRanks) * BYTES;
  }
}
