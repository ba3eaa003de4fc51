package org.nccl4j.it.abi;

import java.util.Map;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.Setting;

/** The settings, for ncclParamGetParameter and its kind. */
final class Parameters {
  private Parameters() {}

  /**
   * A setting's value in this process.
   *
   * @param text of a number in decimal, of a flag 1 or 0; empty if the library chooses
   * @param isNumber true for a number or a flag, which NCCL keeps as one
   */
  record Value(String text, boolean isNumber) {}

  /** The value of a setting; refuses a name that none has. */
  static Value value(String name) {
    return Settings.ofProcess(Map.of()).entries().stream()
        .filter(entry -> entry.setting().name().equals(name))
        .map(Parameters::value)
        .findFirst()
        .orElseThrow(
            () ->
                Wrong.argument(
                    "there is no parameter " + name,
                    "see docs/reference/settings.md, or ncclParamGetAllParameterKeys"));
  }

  private static Value value(Settings.Entry entry) {
    Setting<?> setting = entry.setting();
    boolean isFlag = setting.defaultValue() instanceof Boolean;
    boolean isNumber = isFlag || setting.defaultValue() instanceof Number;
    if (!isNumber || entry.value().isEmpty()) {
      return new Value(entry.value(), isNumber);
    }
    Object parsed = setting.parse(entry.value(), entry.origin());
    return new Value(isFlag ? parsed.equals(true) ? "1" : "0" : parsed.toString(), true);
  }

  static String[] names() {
    return Settings.declared().stream().map(setting -> setting.name()).toArray(String[]::new);
  }
}
