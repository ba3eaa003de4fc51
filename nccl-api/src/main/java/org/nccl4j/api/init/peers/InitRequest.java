package org.nccl4j.api.init.peers;

import java.time.Duration;
import java.util.Map;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.Device;

/**
 * The facts of a communicator before its ranks have met.
 *
 * @param name for messages and logs
 * @param device of this rank
 * @param settings of this communicator
 * @param job the same object for a communicator and all that were split or shrunk from it, on this
 *     rank
 */
public record InitRequest(String name, Device device, Settings settings, Object job) {
  /** The facts of a communicator that comes from no other. */
  public InitRequest(String name, Device device, Settings settings) {
    this(name, device, settings, new Object());
  }

  /** The same device with another name, and with settings over these. */
  public InitRequest derived(String newName, Map<String, String> overrides) {
    return new InitRequest(newName, device, settings.with(overrides), job);
  }

  public Duration operationTimeout() {
    return settings.get(Settings.NCCL4J_TIMEOUT);
  }

  /**
   * INFO where NCCL_DEBUG and NCCL_DEBUG_SUBSYS ask for it, else DEBUG.
   *
   * @param subsystems whose matter it is
   */
  public System.Logger.Level logLevel(String... subsystems) {
    return InfoLog.level(settings, subsystems);
  }

  /** Returns a rank's information log. */
  public InfoLog info(int rank) {
    return new InfoLog(settings, "rank %d of communicator %s".formatted(rank, name));
  }
}
