package org.nccl4j.it.perf.report;

import java.util.List;

/**
 * All results of one command.
 *
 * @param machine where it ran
 * @param version of nccl4j
 * @param command as it was given
 * @param setting how the ranks were
 * @param results in the order in which they were measured
 * @param costs of communicators; none if they were not measured
 */
public record Report(
    Machine machine,
    String version,
    List<String> command,
    Setting setting,
    List<Result> results,
    List<Costs> costs) {
  /**
   * The setting of the ranks.
   *
   * @param mode "threads" or "processes"
   * @param device "host" or "cuda"
   * @param graph whether operations were in CUDA graphs
   * @param registered whether buffers were registered
   */
  public record Setting(String mode, String device, boolean graph, boolean registered) {}
}
