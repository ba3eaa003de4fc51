package org.nccl4j.api.init.probe;

import java.util.Optional;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.plan.cost.TunedTable;
import org.nccl4j.api.settings.GpuSettings;
import org.nccl4j.api.settings.PlanSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.Device;
import org.nccl4j.device.cuda.CudaDevice;

/**
 * The reason why no algorithms are measured at a communicator's creation, as the end of a sentence;
 * "" where there is none. For the creation and the command line.
 */
public final class ProbeObstacle {
  /** The reason that ranks of different GPUs have. */
  public static final String MODELS = "the GPUs are of different models";

  private ProbeObstacle() {}

  /**
   * Ranks of a communicator, as one of them knows them.
   *
   * @param model of this rank's device
   * @param windows the reason why this rank's device has no windows, or ""
   */
  public record Ranks(Device.Kind kind, String model, int nRanks, int hosts, String windows) {}

  /** Returns the reason why a device has no windows, or "". */
  public static String ofWindows(Settings settings, Device device) {
    if (!(device instanceof CudaDevice gpu)) {
      return "";
    }
    return settings.get(GpuSettings.NCCL_CUMEM_ENABLE)
        ? gpu.sharingAbsence().map(absence -> "there are no windows: " + absence).orElse("")
        : "NCCL_CUMEM_ENABLE=0 leaves no windows";
  }

  /** True if the library's times of these ranks are used where the user has none. */
  public static boolean hasTable(Settings settings, Optional<TunedTable> tuned, Ranks ranks) {
    String suffix = tuned.isEmpty() ? Probing.suffix(settings.get(PlanSettings.NCCL4J_PROBE)) : "";
    return ranks.windows.isEmpty()
        && CommunicatorProfile.isMeasured(ranks.model + suffix, ranks.nRanks);
  }

  /**
   * Returns the reason that one rank knows.
   *
   * @param tuned the user's table, which has precedence
   */
  public static String of(Settings settings, Optional<TunedTable> tuned, Ranks ranks) {
    if (ranks.kind != Device.Kind.CUDA) {
      return "the ranks have no GPUs";
    }
    if (tuned.isPresent()) {
      return "NCCL4J_COSTS_FILE names %s, which disables the probe".formatted(tuned.get().file());
    }
    if (settings.get(PlanSettings.NCCL4J_PROBE) == 0) {
      return "NCCL4J_PROBE=0 disables it";
    }
    if (ranks.nRanks == 1) {
      return "there is one GPU";
    }
    if (ranks.hosts > 1) {
      return "the ranks are on %d hosts".formatted(ranks.hosts);
    }
    return hasTable(settings, tuned, ranks)
        ? "the library has a table of " + ranks.model
        : ranks.windows;
  }

  /**
   * Returns the reason that lies in all ranks together.
   *
   * @param model that {@link CommunicatorProfile#model} has if GPUs have windows and one rank each
   */
  static String of(CommunicatorProfile known, String model) {
    if (known.model().isEmpty()) {
      return MODELS;
    }
    if (!known.model().equals(model)) {
      return "GPUs without windows, and GPUs of several ranks, are not measured: these are "
          + known.model();
    }
    return known.isAlike() ? "" : "a proxy carries data between the ranks";
  }
}
