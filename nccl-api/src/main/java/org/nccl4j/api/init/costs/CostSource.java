package org.nccl4j.api.init.costs;

import java.util.List;
import java.util.Optional;
import org.nccl4j.api.init.engine.TuningSettings;
import org.nccl4j.api.init.probe.KeptCopyWays;
import org.nccl4j.api.init.probe.KeptProbe;
import org.nccl4j.api.init.probe.ProbeObstacle;
import org.nccl4j.api.plan.cost.TunedTable;
import org.nccl4j.api.settings.PlanSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.Device;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.cuda.CudaDevice;

/**
 * Describes the source of the times of algorithms on all GPUs of this process, one rank on each.
 * The sources are asked in the order in which a creation asks them.
 */
public final class CostSource {
  private final Settings settings;
  private final List<CudaDevice> gpus;
  private final String model;
  private final Optional<TunedTable> tuned;

  private CostSource(Settings settings, List<CudaDevice> gpus) {
    this.settings = settings;
    this.gpus = gpus;
    this.model = gpus.get(0).name();
    this.tuned = TunedTable.read(settings.get(PlanSettings.NCCL4J_COSTS_FILE));
  }

  /**
   * The source as a text.
   *
   * @param gpus one at least
   * @throws InvalidArgumentException if the user's table cannot be read or something in it is wrong
   */
  public static String of(Settings settings, List<CudaDevice> gpus) {
    return new CostSource(settings, gpus).text();
  }

  private String text() {
    if (gpus.stream().anyMatch(gpu -> !gpu.name().equals(model))) {
      return predicted(ProbeObstacle.MODELS);
    }
    long figures = figures();
    if (figures > 0) {
      return "those of %s, with %d lines for %d GPUs"
          .formatted(tuned.orElseThrow().file(), figures, gpus.size());
    }
    ProbeObstacle.Ranks ranks =
        new ProbeObstacle.Ranks(Device.Kind.CUDA, model, gpus.size(), 1, windowsObstacle());
    if (ProbeObstacle.hasTable(settings, tuned, ranks)) {
      return "the library's table of %s".formatted(model);
    }
    String obstacle = ProbeObstacle.of(settings, tuned, ranks);
    if (obstacle.isEmpty()) {
      return probed();
    }
    return predicted(obstacle)
        + (tuned.isEmpty()
            ? ""
            : " and has no times for %d GPUs of model %s".formatted(gpus.size(), model));
  }

  /** The ways of copying on the host device that are kept for this machine, as a line to read. */
  public static String ofCopies() {
    return KeptCopyWays.report();
  }

  private static String predicted(String reason) {
    return "predicted and not measured, because " + reason;
  }

  /** Lines of the user's table for these GPUs. */
  private long figures() {
    String ranks = gpus.size() + " ";
    return tuned.filter(table -> table.device().equals(model)).stream()
        .flatMap(table -> table.lines().stream())
        .filter(line -> line.startsWith(ranks))
        .count();
  }

  /** The first reason why a GPU has no windows, or "". */
  private String windowsObstacle() {
    return gpus.stream()
        .map(gpu -> ProbeObstacle.ofWindows(settings, gpu))
        .filter(reason -> !reason.isEmpty())
        .findFirst()
        .orElse("");
  }

  private String probed() {
    List<KeptProbe> kept =
        KeptProbe.find(
            model,
            gpus.size(),
            settings.get(PlanSettings.NCCL4J_PROBE),
            TuningSettings.of(settings, Device.Kind.CUDA).conditions());
    if (!kept.isEmpty()) {
      KeptProbe last = kept.get(0);
      return "those of the probe of %s, with %d lines in %s%s%s"
          .formatted(
              last.written(),
              last.lines(),
              last.file(),
              last.unfinished() ? ", to which the next creation adds" : "",
              kept.size() == 1
                  ? ""
                  : ", or of %d files beside it for other topologies or transports"
                      .formatted(kept.size() - 1));
    }
    return "to be measured by a probe at the first creation of a communicator of this machine alone"
        + (reachEachOther()
            ? ""
            : ", over connections only, since not all GPUs reach others' memory");
  }

  private boolean reachEachOther() {
    return gpus.stream()
        .allMatch(gpu -> gpus.stream().allMatch(peer -> peer == gpu || gpu.canAccess(peer)));
  }
}
