package org.nccl4j.api.init;

import java.time.Duration;
import java.util.Map;
import org.nccl4j.api.settings.DebugSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.Device;

/**
 * What is known of a communicator before its ranks have met.
 *
 * @param name for messages and logs
 * @param device of this rank
 * @param settings of this communicator
 */
public record InitRequest(String name, Device device, Settings settings) {
  /** The same device with another name, and with settings over these. */
  public InitRequest derived(String newName, Map<String, String> overrides) {
    return new InitRequest(newName, device, settings.with(overrides));
  }

  Duration operationDeadline() {
    return settings.get(Settings.NCCL4J_TIMEOUT);
  }

  /**
   * INFO where NCCL_DEBUG and NCCL_DEBUG_SUBSYS ask for it, else DEBUG.
   *
   * @param subsystems whose matter it is
   */
  System.Logger.Level logLevel(String... subsystems) {
    boolean wanted = settings.get(DebugSettings.NCCL_DEBUG_SUBSYS).logAny(subsystems);
    return switch (settings.get(DebugSettings.NCCL_DEBUG)) {
      case "INFO", "ABORT", "TRACE" ->
          wanted ? System.Logger.Level.INFO : System.Logger.Level.DEBUG;
      default -> System.Logger.Level.DEBUG;
    };
  }
}
