package org.nccl4j.api.spi;

import java.util.Optional;

/**
 * The values of settings: from the communicator's configuration, the system properties, the
 * environment or a configuration file, in this order.
 */
@FunctionalInterface
public interface SettingValues {
  /**
   * The text of a setting, such as "NCCL_SOCKET_IFNAME", if it is set. A setting that is on or off
   * gives "1" or "0", whatever word the user wrote.
   */
  Optional<String> setting(String name);

  /**
   * The value of a setting if it is set.
   *
   * @throws org.nccl4j.device.InvalidArgumentException if it is set to something else than a value
   */
  default <T> Optional<T> find(Setting<T> setting) {
    Optional<String> text = setting(setting.name());
    return text.isEmpty() ? Optional.empty() : Optional.of(setting.parse(text.get(), ""));
  }

  /**
   * The value of a setting, or its default.
   *
   * @throws org.nccl4j.device.InvalidArgumentException if it is set to something else than a value
   */
  default <T> T get(Setting<T> setting) {
    return find(setting).orElse(setting.defaultValue());
  }
}
