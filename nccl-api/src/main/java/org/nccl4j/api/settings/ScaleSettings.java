package org.nccl4j.api.settings;

import java.util.List;
import org.nccl4j.api.spi.Setting;

/** The settings of communicators of very many ranks. */
public final class ScaleSettings {
  public static final Setting<Integer> NCCL_UID_STAGGER_RATE =
      Setting.number(
          "NCCL_UID_STAGGER_RATE",
          7000,
          1,
          1_000_000,
          "Ranks that contact a bootstrap root in a second, if there are many.");

  public static final Setting<Integer> NCCL_UID_STAGGER_THRESHOLD =
      Setting.number(
          "NCCL_UID_STAGGER_THRESHOLD",
          256,
          1,
          1_000_000,
          "The most ranks that contact the bootstrap root at once.");

  public static final Setting<Boolean> NCCL_RUNTIME_CONNECT =
      Setting.flag(
          "NCCL_RUNTIME_CONNECT",
          true,
          "On the host device, connect ranks over networks when an operation first needs it, but"
              + " for neighbours in rings and trees; 0: all when the communicator is created.");

  public static final Setting<Boolean> NCCL4J_JOB_STATE =
      Setting.flag(
          "NCCL4J_JOB_STATE",
          false,
          "The bootstrap's root keeps its port while the communicator lives and answers nccl"
              + " diagnose --job; needed where the unique id is created, and on rank 0 with"
              + " NCCL_COMM_ID.");

  public static final Setting<HttpAddress> NCCL4J_JOB_HTTP =
      Setting.of(
          "NCCL4J_JOB_HTTP",
          HttpAddress.OFF,
          "a port, or an interface or address and a port, such as eth0:9465; port 0: any",
          "Rank 0 serves the state of all ranks there by HTTP, /job.json and /metrics for"
              + " Prometheus, without access control, until the communicator is closed; a port alone"
              + " is of the loopback address. Implies NCCL4J_JOB_STATE=1 where it is set.",
          HttpAddress::parse);

  static final List<Setting<?>> ALL =
      List.of(
          NCCL_UID_STAGGER_RATE,
          NCCL_UID_STAGGER_THRESHOLD,
          NCCL_RUNTIME_CONNECT,
          NCCL4J_JOB_STATE,
          NCCL4J_JOB_HTTP);

  private ScaleSettings() {}
}
