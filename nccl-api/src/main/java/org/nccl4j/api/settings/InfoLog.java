package org.nccl4j.api.settings;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.nccl4j.api.spi.SettingValues;
import org.nccl4j.device.DebugLog;

/**
 * The log of one rank's choices: at INFO if NCCL_DEBUG and NCCL_DEBUG_SUBSYS request it, else at
 * DEBUG. Any thread.
 *
 * @param settings of the communicator
 * @param who a line is about, such as "rank 0 of communicator 1"
 */
public record InfoLog(Settings settings, String who) {
  private static final Map<String, Logger> LOGS = new ConcurrentHashMap<>();

  /**
   * At which level to tell something.
   *
   * @param subsystems whose matter it is
   */
  public static Level level(SettingValues settings, String... subsystems) {
    boolean wanted = settings.get(DebugSettings.NCCL_DEBUG_SUBSYS).logAny(subsystems);
    return switch (settings.get(DebugSettings.NCCL_DEBUG)) {
      case "INFO", "ABORT", "TRACE" -> wanted ? Level.INFO : Level.DEBUG;
      default -> Level.DEBUG;
    };
  }

  /** Writes a line, made only if it is logged. */
  public void tell(String subsystem, Supplier<String> line) {
    tellAll(subsystem, () -> List.of(line.get()));
  }

  /** Writes lines, made only if they are logged. */
  public void tellAll(String subsystem, Supplier<List<String>> lines) {
    Logger log = LOGS.computeIfAbsent(subsystem, DebugLog::of);
    Level level = level(settings, subsystem);
    if (log.isLoggable(level)) {
      lines.get().forEach(line -> log.log(level, who + " " + line));
    }
  }
}
