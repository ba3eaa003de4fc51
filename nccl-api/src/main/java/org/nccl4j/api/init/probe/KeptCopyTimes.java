package org.nccl4j.api.init.probe;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import org.nccl4j.api.init.peers.InitRequest;
import org.nccl4j.api.plan.cost.CostPoints;
import org.nccl4j.api.plan.cost.TunedTable;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.settings.PlanSettings;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.CopyTimes;

/**
 * Keeps the times of copies between processes beside the results of {@link Probing}, as the times
 * of all-gathers of two ranks: through slots, and with each other's memory. Any thread.
 *
 * <p>Other programs, and other ranks that measure at the same time, make copies slower, by
 * different factors. So times are in doubt until a later process measures about the same, and even
 * then a process measures again from time to time. The least times count.
 */
public final class KeptCopyTimes implements CopyTimes.Store {
  private static final String TWICE = "2 AllGather Ring Simple";
  private static final String SINGLE = "2 AllGather DirectOneShot Simple";
  private static final Path PROCESSORS = Path.of("/proc/cpuinfo");
  private static final double NANOS = 1e3;

  /** The age of times in doubt at which they are measured again: ranks of a job start together. */
  private static final Duration DOUBT = Duration.ofMinutes(10);

  /** The same of times that were confirmed. */
  private static final Duration CONFIRMED = Duration.ofDays(1);

  private final ProbeCache cache;
  private final ProbeKey key;
  private final InfoLog info;

  KeptCopyTimes(ProbeCache cache, ProbeKey key, InfoLog info) {
    this.cache = cache;
    this.key = key;
    this.info = info;
  }

  /** The store of the user that runs this process; keeps nothing if NCCL4J_PROBE is 0. */
  public static CopyTimes.Store of(InitRequest request, int rank) {
    return request.settings().get(PlanSettings.NCCL4J_PROBE) == 0
        ? NONE
        : new OfUser(request.info(rank));
  }

  /** Looks for the key and the folder only when they are needed. */
  private record OfUser(InfoLog info) implements CopyTimes.Store {
    @Override
    public Optional<CopyTimes.Kept> find() {
      return store().find();
    }

    @Override
    public CopyTimes keep(CopyTimes measured) {
      return store().keep(measured);
    }

    private KeptCopyTimes store() {
      String kernel = System.getProperty("os.version");
      String java = System.getProperty("java.vm.version");
      return new KeptCopyTimes(
          ProbeCache.ofUser(), ProbeKey.ofCopies(PROCESSORS, kernel, java), info);
    }
  }

  @Override
  public Optional<CopyTimes.Kept> find() {
    Optional<CopyTimes.Kept> confirmed = find(key, CONFIRMED);
    return confirmed.isPresent() ? confirmed : find(key.inDoubt(), DOUBT);
  }

  /** Of processes that find old times at once, the first to renew their date measures again. */
  private Optional<CopyTimes.Kept> find(ProbeKey which, Duration most) {
    boolean isOld = cache.age(which).filter(age -> age.abs().compareTo(most) >= 0).isPresent();
    return cache
        .find(which, info)
        .flatMap(table -> times(table, which))
        .map(times -> new CopyTimes.Kept(times, isOld && cache.renew(which)));
  }

  private Optional<CopyTimes> times(TunedTable table, ProbeKey which) {
    Optional<List<Long>> single = nanos(table, SINGLE);
    Optional<List<Long>> twice = nanos(table, TWICE);
    if (single.isEmpty() || twice.isEmpty()) {
      info.tell("TUNING", () -> "ignores " + place(which) + ", which has no times of copies");
      return Optional.empty();
    }
    return Optional.of(new CopyTimes(single.get(), twice.get()));
  }

  /** The times of a line, if it has those of all sizes. */
  private static Optional<List<Long>> nanos(TunedTable table, String way) {
    return table.lines().stream()
        .filter(line -> line.startsWith(way + " "))
        .map(line -> CostPoints.read(line.split(" "), 4))
        .filter(points -> CopyTimes.SIZES.stream().allMatch(s -> points.containsKey((long) s)))
        .findFirst()
        .map(points -> CopyTimes.SIZES.stream().map(s -> nanos(points.get((long) s))).toList());
  }

  private static long nanos(double micros) {
    return Math.round(NANOS * micros);
  }

  @Override
  public CopyTimes keep(CopyTimes measured) {
    ProbeKey doubt = key.inDoubt();
    boolean isRepeated = cache.knows(key) || cache.knows(doubt);
    Optional<CopyTimes> earlier = inFile(key).or(() -> inFile(doubt));
    CopyTimes least = earlier.map(measured::least).orElse(measured);
    boolean isConfirmed = isRepeated && earlier.filter(measured::agreesWith).isPresent();
    cache.forget(isConfirmed ? doubt : key, info);
    cache.keep(isConfirmed ? key : doubt, table(least), info);
    info.tell(
        "TUNING",
        () ->
            "has measured copies between processes (%s), kept in %s%s"
                .formatted(
                    measured,
                    place(isConfirmed ? key : doubt),
                    isConfirmed ? "" : " until a later process measures again"));
    return least;
  }

  private Optional<CopyTimes> inFile(ProbeKey which) {
    return cache.inFile(which, info).flatMap(table -> times(table, which));
  }

  private TunedTable table(CopyTimes times) {
    List<String> lines = List.of(line(SINGLE, times.single()), line(TWICE, times.twice()));
    return new TunedTable(ProbeTable.NAME, key.model(), lines);
  }

  private String place(ProbeKey which) {
    return cache.file(which).map(Path::toString).orElse("this process alone");
  }

  private static String line(String way, List<Long> nanos) {
    StringBuilder line = new StringBuilder(way);
    for (int s = 0; s < nanos.size(); s++) {
      double micros = Math.max(0.001, nanos.get(s) / NANOS);
      line.append(String.format(Locale.ROOT, " %d:%.3f", CopyTimes.SIZES.get(s), micros));
    }
    return line.toString();
  }
}
