package org.nccl4j.api.settings;

import java.util.List;
import org.nccl4j.api.spi.Setting;
import org.nccl4j.api.spi.SettingValues;
import org.nccl4j.device.Device;

/** The settings of communicators of very many ranks. */
public final class ScaleSettings {
  /**
   * Most GPUs whose ranks are all connected when their communicator is created: as many as have
   * one-shot. Among more GPUs no collective needs all pairs.
   */
  public static final int MOST_CONNECTED_GPUS = 33;

  public static final Setting<Integer> NCCL_UID_STAGGER_RATE =
      Setting.number(
          "NCCL_UID_STAGGER_RATE",
          7000,
          1,
          1_000_000,
          "The number of ranks that contact a bootstrap root in a second, if more than"
              + " NCCL_UID_STAGGER_THRESHOLD ranks do.");

  public static final Setting<Integer> NCCL_UID_STAGGER_THRESHOLD =
      Setting.number(
          "NCCL_UID_STAGGER_THRESHOLD",
          256,
          1,
          1_000_000,
          "The most ranks that contact a bootstrap root at once.");

  public static final Setting<Boolean> NCCL_RUNTIME_CONNECT =
      Setting.flag(
          "NCCL_RUNTIME_CONNECT",
          true,
          "Connects ranks over networks when an operation first needs it, except neighbours in"
              + " rings and trees: on the host device, and among more than "
              + MOST_CONNECTED_GPUS
              + " GPUs; 0: connects all when the communicator is created.");

  public static final Setting<Boolean> NCCL4J_JOB_STATE =
      Setting.flag(
          "NCCL4J_JOB_STATE",
          false,
          "Keeps the port of the bootstrap root open while the communicator lives, to answer nccl"
              + " diagnose, top and trace with --job; needed where the unique id is created, and on rank 0 with"
              + " NCCL_COMM_ID.");

  public static final Setting<HttpAddress> NCCL4J_JOB_HTTP =
      Setting.of(
          "NCCL4J_JOB_HTTP",
          HttpAddress.OFF,
          "a port, or an interface or address and a port, such as eth0:9465; port 0: any",
          "The address where rank 0 serves the state of all ranks by HTTP until the communicator"
              + " is closed: /job.json, and /metrics for Prometheus, without access control. A"
              + " port alone means the loopback address. Implies NCCL4J_JOB_STATE=1 in the"
              + " process that sets it.",
          new HttpAddress.Parser());

  static final List<Setting<?>> ALL =
      List.of(
          NCCL_UID_STAGGER_RATE,
          NCCL_UID_STAGGER_THRESHOLD,
          NCCL_RUNTIME_CONNECT,
          NCCL4J_JOB_STATE,
          NCCL4J_JOB_HTTP);

  private ScaleSettings() {}

  /**
   * True if ranks over networks are connected when an operation first needs it, unless rings or
   * trees do.
   *
   * @param kind of all ranks' devices
   */
  public static boolean connectsLate(SettingValues settings, Device.Kind kind, int nRanks) {
    return settings.get(NCCL_RUNTIME_CONNECT)
        && (kind == Device.Kind.HOST || nRanks > MOST_CONNECTED_GPUS);
  }
}
