package org.nccl4j.api.init.costs;

import java.util.List;
import java.util.Optional;
import org.nccl4j.api.init.engine.TuningSettings;
import org.nccl4j.api.init.probe.KeptProbe;
import org.nccl4j.api.plan.algorithm.CommunicatorProfile;
import org.nccl4j.api.plan.algorithm.TunedTable;
import org.nccl4j.api.settings.GpuSettings;
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
      return predicted("the GPUs are of different models");
    }
    long figures = figures();
    if (figures > 0) {
      return "those of %s, with %d lines for %d GPUs"
          .formatted(tuned.orElseThrow().file(), figures, gpus.size());
    }
    String windows = windowsObstacle();
    boolean always = tuned.isEmpty() && settings.get(PlanSettings.NCCL4J_PROBE) == 2;
    if (windows.isEmpty() && !always && CommunicatorProfile.isMeasured(model, gpus.size())) {
      return "the library's table of %s".formatted(model);
    }
    String obstacle = probeObstacle(windows);
    return obstacle.isEmpty() ? probed() : predicted(obstacle);
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

  /** Why there are no windows, or "". */
  private String windowsObstacle() {
    return settings.get(GpuSettings.NCCL_CUMEM_ENABLE)
        ? gpus.stream()
            .flatMap(gpu -> gpu.sharingAbsence().stream())
            .findFirst()
            .map(absence -> "there are no windows: " + absence)
            .orElse("")
        : "NCCL_CUMEM_ENABLE=0 leaves no windows";
  }

  private String probeObstacle(String windows) {
    if (tuned.isPresent()) {
      return "%s has none for %d GPUs of model %s, and keeps the probe off"
          .formatted(tuned.get().file(), gpus.size(), model);
    }
    if (gpus.size() == 1) {
      return "there is one GPU";
    }
    return settings.get(PlanSettings.NCCL4J_PROBE) == 0
        ? "NCCL4J_PROBE=0 forbids a probe"
        : windows;
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
      return "those of the probe of %s, with %d lines in %s%s"
          .formatted(
              last.written(),
              last.lines(),
              last.file(),
              kept.size() == 1
                  ? ""
                  : ", or of %d files beside it for other topologies or transports"
                      .formatted(kept.size() - 1));
    }
    return "to be measured by a probe at the first creation of a communicator of this machine alone"
        + (reachEachOther()
            ? ""
            : ", over connections alone, since not all GPUs reach others' memory");
  }

  private boolean reachEachOther() {
    return gpus.stream()
        .allMatch(gpu -> gpus.stream().allMatch(peer -> peer == gpu || gpu.canAccess(peer)));
  }
}
