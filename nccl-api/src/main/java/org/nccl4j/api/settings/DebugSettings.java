package org.nccl4j.api.settings;

import java.util.List;

/** The settings of what is logged, recorded and checked. */
public final class DebugSettings {
  public static final Setting<String> NCCL_DEBUG =
      Setting.choice(
          "NCCL_DEBUG",
          "NONE",
          List.of("NONE", "VERSION", "WARN", "INFO", "ABORT", "TRACE"),
          "How much is logged beside warnings: with VERSION the version of this library, with INFO and"
              + " above what NCCL_DEBUG_SUBSYS names.");

  public static final Setting<Subsystems> NCCL_DEBUG_SUBSYS =
      Setting.subsystems(
          "NCCL_DEBUG_SUBSYS",
          "What is logged at NCCL_DEBUG=INFO and above: among others by COLL each operation, by TUNING"
              + " the way that each new one takes, by ENV what is set and where, by P2P, SHM and NET"
              + " how ranks are reached, by ALLOC the memory that is held, by REG windows, by CALL"
              + " calls such as split, by RAS failures.");

  public static final Setting<String> NCCL_DEBUG_FILE =
      Setting.text(
          "NCCL_DEBUG_FILE",
          "",
          "the name of a file to append to; %h stands for the host, %p for the process, %% for %",
          "Where it is logged at NCCL_DEBUG=WARN and above, instead of to System.Logger; the first"
              + " file that a process names serves all its communicators.");

  public static final Setting<String> NCCL4J_FLIGHT_FILE =
      Setting.text(
          "NCCL4J_FLIGHT_FILE",
          "",
          "the name of a file to write; %h stands for the host, %p for the process, %% for %",
          "Where the flight recorder is written when a communicator fails, for nccl diagnose.");

  public static final Setting<Boolean> NCCL_CHECK_POINTERS =
      Setting.flag(
          "NCCL_CHECK_POINTERS",
          false,
          "Asks the driver about the address of each buffer, so that one of the host's memory or of"
              + " another device is refused; costs microseconds a call.");

  static final List<Setting<?>> ALL =
      List.of(
          NCCL_DEBUG, NCCL_DEBUG_SUBSYS, NCCL_DEBUG_FILE, NCCL4J_FLIGHT_FILE, NCCL_CHECK_POINTERS);

  private DebugSettings() {}
}
