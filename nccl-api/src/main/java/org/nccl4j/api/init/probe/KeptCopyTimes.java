package org.nccl4j.api.init.probe;

import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import org.nccl4j.api.init.peers.InitRequest;
import org.nccl4j.api.plan.algorithm.CostPoints;
import org.nccl4j.api.plan.algorithm.TunedTable;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.settings.PlanSettings;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.CopyTimes;

/**
 * Keeps the times of copies between processes beside the results of {@link Probing}, as the times
 * of all-gathers of two ranks: through slots, and with each other's memory. Any thread.
 */
public final class KeptCopyTimes implements CopyTimes.Store {
  private static final String TWICE = "2 AllGather Ring Simple";
  private static final String SINGLE = "2 AllGather DirectOneShot Simple";
  private static final Path PROCESSORS = Path.of("/proc/cpuinfo");
  private static final double NANOS = 1e3;

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
    public Optional<CopyTimes> find() {
      return store().find();
    }

    @Override
    public void keep(CopyTimes times) {
      store().keep(times);
    }

    private KeptCopyTimes store() {
      String kernel = System.getProperty("os.version");
      String java = System.getProperty("java.vm.version");
      return new KeptCopyTimes(
          ProbeCache.ofUser(), ProbeKey.ofCopies(PROCESSORS, kernel, java), info);
    }
  }

  @Override
  public Optional<CopyTimes> find() {
    return cache.find(key, info).flatMap(this::times);
  }

  private Optional<CopyTimes> times(TunedTable table) {
    Optional<List<Long>> single = nanos(table, SINGLE);
    Optional<List<Long>> twice = nanos(table, TWICE);
    if (single.isEmpty() || twice.isEmpty()) {
      info.tell("TUNING", () -> "ignores " + place() + ", which has no times of copies");
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
  public void keep(CopyTimes times) {
    List<String> lines = List.of(line(SINGLE, times.single()), line(TWICE, times.twice()));
    cache.keep(key, new TunedTable(ProbeTable.NAME, key.model(), lines), info);
    info.tell(
        "TUNING",
        () -> "has measured copies between processes (" + times + "), kept in " + place());
  }

  private String place() {
    return cache.file(key).map(Path::toString).orElse("this process alone");
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
