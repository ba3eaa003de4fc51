package org.nccl4j.api.settings;

import java.time.Duration;
import java.util.List;
import org.nccl4j.api.spi.Setting;

/** The settings of the planner: the algorithms that it compares, and their times. */
public final class PlanSettings {
  public static final Setting<String> NCCL4J_COSTS_FILE =
      Setting.text(
          "NCCL4J_COSTS_FILE",
          "",
          "the name of a file that ./nccl tune wrote",
          "Measured times that replace predicted times, of ranks of one host, or of as many ranks on"
              + " each of several hosts; the same file on all ranks.");

  public static final Setting<Integer> NCCL4J_PROBE =
      Setting.number(
          "NCCL4J_PROBE",
          1,
          0,
          2,
          "1: the creation of a communicator on GPUs of one machine measures the algorithms for"
              + " up to NCCL4J_PROBE_TIME if there are no measured times for these GPUs, and keeps"
              + " the times in nccl4j/ in $XDG_CACHE_HOME or ~/.cache; the next creations measure"
              + " what is missing. 2: also if the library has"
              + " measured times, which are then not used. 0: never. Unless 0, the switch of NVLink"
              + " SHARP is measured for 5 ms before its first use if no setting requests it, and"
              + " host ranks keep there which ways of copying are fast."
              + " NCCL4J_COSTS_FILE has precedence.");

  public static final Setting<Duration> NCCL4J_PROBE_TIME =
      Setting.duration(
          "NCCL4J_PROBE_TIME",
          Duration.ofMillis(200),
          "The time after which the probe of a creation (NCCL4J_PROBE) begins no further"
              + " measurement. A busy machine measures few algorithms in 200 ms. The shortest of all"
              + " ranks' counts.");

  public static final Setting<String> NCCL4J_TRIALS =
      Setting.text(
          "NCCL4J_TRIALS",
          "",
          "the name of a folder",
          "The folder for times of trials: from time to time a collective uses another algorithm"
              + " than the chosen one, and both are measured. This takes at most 0.5 % of the time"
              + " of a size's calls and one trial more. ./nccl tune --from FOLDER FILE writes a"
              + " table for"
              + " NCCL4J_COSTS_FILE from them. Set it on all ranks or on none. Float sums of such a"
              + " call may be rounded differently.");

  public static final Setting<Integer> NCCL_CTA_POLICY =
      Setting.number(
          "NCCL_CTA_POLICY",
          0,
          0,
          3,
          "0: collectives of 4 MiB and more use the fewest blocks within 3 % of the least time,"
              + " where these are known. 1 (NCCL's EFFICIENCY): operations of all sizes"
              + " use few blocks: at most 12 between windows, also of exchanges with experts and"
              + " ragged ones, 24 channels over connections and of NVLS, and 24 blocks of kernels in"
              + " a rank's own memory, as of quantised sums. Collectives between"
              + " windows then start only after the previous operation has ended, and large"
              + " operations take up to a third longer. 2 (ZERO): copy engines execute"
              + " operations on windows that only move data, without a kernel, and sends and"
              + " receives of 1 MiB and more of any memory, with kernels of one thread between"
              + " the copies. 3: both. NCCL_ALGO has precedence.");

  public static final Setting<Integer> NCCL_P2P_LL_THRESHOLD =
      Setting.number(
          "NCCL_P2P_LL_THRESHOLD",
          -1,
          -1,
          Integer.MAX_VALUE,
          "Most bytes of each channel of a GPU's send or receive, or of a message of all-to-all,"
              + " gather and scatter, in LL; larger messages use LL128 or Simple. -1: by the links"
              + " between the GPUs. NCCL's default is 16384.");

  public static final Setting<String> NCCL_TUNER_PLUGIN =
      Setting.text(
          "NCCL_TUNER_PLUGIN",
          "",
          "the name of a tuner on the class path or module path, or none",
          "The tuner that edits the predicted times; if unset, the first by name.");

  public static final Setting<String> NCCL4J_DETERMINISM =
      Setting.choice(
          "NCCL4J_DETERMINISM",
          "RUN_TO_RUN",
          List.of("RUN_TO_RUN", "SIZE_INVARIANT"),
          "The conditions under which a reduction gives the same bits: RUN_TO_RUN for the same"
              + " call, SIZE_INVARIANT also for other sizes.");

  static final List<Setting<?>> ALL =
      List.of(
          NCCL4J_COSTS_FILE,
          NCCL4J_PROBE,
          NCCL4J_PROBE_TIME,
          NCCL4J_TRIALS,
          NCCL_CTA_POLICY,
          NCCL_P2P_LL_THRESHOLD,
          NCCL_TUNER_PLUGIN,
          NCCL4J_DETERMINISM);

  private PlanSettings() {}
}
