package org.nccl4j.it.abi;

import java.util.Map;
import org.nccl4j.api.settings.Settings;

/** The settings, for ncclParamGetParameter and its kind. */
final class Parameters {
  private Parameters() {}

  /** The value in this process; null if there is no setting of the name. */
  static String value(String name) {
    return Settings.ofProcess(Map.of()).entries().stream()
        .filter(entry -> entry.setting().name().equals(name))
        .map(Settings.Entry::value)
        .findFirst()
        .orElse(null);
  }

  static String[] names() {
    return Settings.declared().stream().map(setting -> setting.name()).toArray(String[]::new);
  }
}
