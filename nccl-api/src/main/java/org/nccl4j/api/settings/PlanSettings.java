package org.nccl4j.api.settings;

import java.util.List;

/** The settings of what ways the planner compares, and by which times. */
public final class PlanSettings {
  public static final Setting<String> NCCL4J_COSTS_FILE =
      Setting.text(
          "NCCL4J_COSTS_FILE",
          "",
          "the name of a file that ./nccl tune wrote",
          "Measured times that go before predicted ones; the same on all ranks.");

  public static final Setting<Integer> NCCL_CTA_POLICY =
      Setting.number(
          "NCCL_CTA_POLICY",
          0,
          0,
          3,
          "With 2 (NCCL's ZERO), GPUs' copy engines do what only moves data between windows, and no"
              + " kernel is launched for it; they do sends and receives of 1 MiB and more of any"
              + " memory, too, with kernels of one thread between the copies. NCCL_ALGO goes before"
              + " that; 1 (EFFICIENCY) is as 0, and 3 as 2.");

  public static final Setting<String> NCCL_TUNER_PLUGIN =
      Setting.text(
          "NCCL_TUNER_PLUGIN",
          "",
          "the name of a tuner on the module path, or none",
          "Which tuner edits the predicted times; without it the first by name.");

  public static final Setting<String> NCCL4J_DETERMINISM =
      Setting.choice(
          "NCCL4J_DETERMINISM",
          "RUN_TO_RUN",
          List.of("RUN_TO_RUN", "SIZE_INVARIANT"),
          "On what the bits of a reduction may depend.");

  static final List<Setting<?>> ALL =
      List.of(NCCL4J_COSTS_FILE, NCCL_CTA_POLICY, NCCL_TUNER_PLUGIN, NCCL4J_DETERMINISM);

  private PlanSettings() {}
}
