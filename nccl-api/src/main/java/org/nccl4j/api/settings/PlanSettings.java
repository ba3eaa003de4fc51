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

  static final List<Setting<?>> ALL = List.of(NCCL4J_COSTS_FILE);

  private PlanSettings() {}
}
