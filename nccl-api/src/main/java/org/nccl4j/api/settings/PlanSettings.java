package org.nccl4j.api.settings;

import java.util.List;

/** The settings of what times the planner compares. */
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
              + " kernel is launched for it, unless NCCL_ALGO says otherwise; 1 (EFFICIENCY) is as 0,"
              + " and 3 as 2.");

  static final List<Setting<?>> ALL = List.of(NCCL4J_COSTS_FILE, NCCL_CTA_POLICY);

  private PlanSettings() {}
}
