package org.nccl4j.api.settings;

import java.util.List;
import org.nccl4j.api.spi.Setting;

/** The settings of what is logged, recorded and checked. */
public final class DebugSettings {
  public static final Setting<String> NCCL_DEBUG =
      Setting.choice(
          "NCCL_DEBUG",
          "NONE",
          List.of("NONE", "VERSION", "WARN", "INFO", "ABORT", "TRACE"),
          "The amount of logging besides warnings: with VERSION the version of this library, with"
              + " INFO and above the subsystems in NCCL_DEBUG_SUBSYS.");

  public static final Setting<Subsystems> NCCL_DEBUG_SUBSYS =
      Setting.of(
          "NCCL_DEBUG_SUBSYS",
          Subsystems.DEFAULT,
          "names among " + String.join(", ", Subsystems.NAMES) + ", with ^ in front to exclude",
          "The subsystems that are logged at NCCL_DEBUG=INFO and above. For example: COLL each"
              + " operation; TUNING the algorithm of each new operation; ENV settings and their"
              + " sources; P2P, SHM and NET how ranks are reached; ALLOC memory in use; REG"
              + " windows; CALL calls such as split; RAS failures.",
          new Subsystems.Parser());

  public static final Setting<String> NCCL_DEBUG_FILE =
      Setting.text(
          "NCCL_DEBUG_FILE",
          "",
          "the name of a file to append to; %h stands for the host, %p for the process, %% for %",
          "The log file at NCCL_DEBUG=WARN and above, instead of System.Logger; all communicators"
              + " of a process use the first file that is named.");

  public static final Setting<String> NCCL4J_FLIGHT_FILE =
      Setting.text(
          "NCCL4J_FLIGHT_FILE",
          "",
          "the name of a file to write; %h stands for the host, %p for the process, %% for %",
          "The file to which the flight recorder is written when a communicator fails, for nccl"
              + " diagnose.");

  public static final Setting<Boolean> NCCL_CHECK_POINTERS =
      Setting.flag(
          "NCCL_CHECK_POINTERS",
          false,
          "Asks the driver about the address of each buffer, and refuses memory of the host or of"
              + " another device; costs microseconds a call.");

  public static final Setting<Boolean> NCCL_NVTX_DISABLE =
      Setting.flag(
          "NCCL_NVTX_DISABLE",
          false,
          "Omits the NVTX ranges around launches, which operations get in a process started by a"
              + " tool such as Nsight Systems.");

  public static final Setting<Integer> NCCL4J_TRACE_RATE =
      Setting.number(
          "NCCL4J_TRACE_RATE",
          1000,
          0,
          Integer.MAX_VALUE,
          "Operations a second of each rank of which ./nccl trace, or another recording of Java"
              + " Flight Recorder with the event org.nccl4j.Operation, has an event. Of ranks"
              + " that launch more, one of 2, 4, 8 and so on is recorded: of collectives the same"
              + " on all ranks. 0: all.");

  static final List<Setting<?>> ALL =
      List.of(
          NCCL_DEBUG,
          NCCL_DEBUG_SUBSYS,
          NCCL_DEBUG_FILE,
          NCCL4J_FLIGHT_FILE,
          NCCL4J_TRACE_RATE,
          NCCL_CHECK_POINTERS,
          NCCL_NVTX_DISABLE);

  private DebugSettings() {}
}
