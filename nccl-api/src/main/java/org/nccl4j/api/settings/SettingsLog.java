package org.nccl4j.api.settings;

import java.lang.System.Logger.Level;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.nccl4j.device.DebugLog;

/** Logs the settings of a creation and the version, each line once in a process. Any thread. */
public final class SettingsLog {
  private static final Set<String> TOLD = ConcurrentHashMap.newKeySet();

  private SettingsLog() {}

  /** Opens the log file, before anything is logged or created. */
  public static void open(Settings settings) {
    String file = settings.get(DebugSettings.NCCL_DEBUG_FILE);
    if (!file.isEmpty()) {
      switch (settings.get(DebugSettings.NCCL_DEBUG)) {
        case "WARN" -> DebugLog.toFile(file, Level.WARNING);
        case "INFO", "ABORT", "TRACE" -> DebugLog.toFile(file, Level.INFO);
        default -> {}
      }
    }
  }

  /** Logs hints, the version of this library, and the settings that are set with their origins. */
  public static void tell(Settings settings, String version) {
    for (String hint : settings.hints()) {
      tell("ENV", Level.WARNING, hint);
    }
    boolean alone = settings.get(DebugSettings.NCCL_DEBUG).equals("VERSION");
    tell("INIT", alone ? Level.INFO : InfoLog.level(settings, "INIT"), "nccl4j " + version);
    Level level = InfoLog.level(settings, "ENV");
    if (DebugLog.of("ENV").isLoggable(level)) {
      for (Settings.Entry entry : settings.entries()) {
        if (!entry.origin().equals("default")) {
          String name = entry.setting().name();
          tell("ENV", level, "%s=%s (%s)".formatted(name, entry.value(), entry.origin()));
        }
      }
    }
  }

  /** Marks the hints as logged, for a program that prints them itself. */
  public static void markTold(Settings settings) {
    TOLD.addAll(settings.hints());
  }

  private static void tell(String subsystem, Level level, String line) {
    System.Logger log = DebugLog.of(subsystem);
    if (log.isLoggable(level) && TOLD.add(line)) {
      log.log(level, line);
    }
  }
}
