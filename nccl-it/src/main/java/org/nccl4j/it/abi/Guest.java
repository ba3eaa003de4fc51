package org.nccl4j.it.abi;

import java.util.Map;
import org.nccl4j.api.settings.DebugSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.topo.system.TopologyLog;

/** Keeps the library from disturbing the program whose process it shares. */
final class Guest {
  /** Set by the C side if it has started the JVM. */
  private static final String OWN_JVM = "nccl4j.jvm.own";

  private Guest() {}

  /**
   * Has warnings written only if the user has set NCCL_DEBUG, as NCCL does; not in a user's JVM.
   * Where nothing is written, the JVM's logging is not even set up, which takes 40 ms.
   */
  static void begin() {
    if (Boolean.getBoolean(OWN_JVM) && isSilent()) {
      DebugLog.silence();
      TopologyLog.silence();
    }
  }

  /** Throws nothing: an error here would be one of this class, which no call could explain. */
  private static boolean isSilent() {
    Settings settings;
    try {
      settings = Settings.ofProcess(Map.of());
    } catch (InvalidArgumentException e) { // of a file; each call that reads the settings gives it
      return true;
    }
    try {
      return switch (settings.get(DebugSettings.NCCL_DEBUG)) {
        case "NONE", "VERSION" -> true;
        default -> false;
      };
    } catch (InvalidArgumentException e) { // NCCL ignores a level that there is not
      System.setProperty(DebugSettings.NCCL_DEBUG.name(), DebugSettings.NCCL_DEBUG.defaultText());
      return true;
    }
  }
}
