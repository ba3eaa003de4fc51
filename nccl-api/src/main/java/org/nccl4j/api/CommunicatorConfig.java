package org.nccl4j.api;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.InvalidArgumentException;

/**
 * How a communicator is to be made. What is not said here is taken from the system properties, the
 * environment and the configuration files, and then from the settings' defaults. Immutable; each
 * {@code with} method gives a changed copy.
 */
public final class CommunicatorConfig {
  private static final CommunicatorConfig DEFAULTS = new CommunicatorConfig("", Map.of());

  private final String name;
  private final Map<String, String> settings;

  private CommunicatorConfig(String name, Map<String, String> settings) {
    this.name = name;
    this.settings = settings;
  }

  /** Nothing is said. */
  public static CommunicatorConfig defaults() {
    return DEFAULTS;
  }

  /** A name for messages and logs; by default a number. */
  public CommunicatorConfig withName(String newName) {
    return new CommunicatorConfig(Objects.requireNonNull(newName), settings);
  }

  /**
   * How long creation may take, all ranks together; by default 60 s.
   *
   * @throws InvalidArgumentException for less than a millisecond
   */
  public CommunicatorConfig withInitDeadline(Duration deadline) {
    return with(Settings.NCCL4J_INIT_TIMEOUT.name(), millis("the init deadline", deadline));
  }

  /**
   * How long an operation may wait for other ranks; by default 10 minutes.
   *
   * @throws InvalidArgumentException for less than a millisecond
   */
  public CommunicatorConfig withOperationDeadline(Duration deadline) {
    return with(Settings.NCCL4J_TIMEOUT.name(), millis("the operation deadline", deadline));
  }

  /** The transports that may be used, best first; by default all, by priority and name. */
  public CommunicatorConfig withTransports(List<String> names) {
    return with(Settings.NCCL4J_TRANSPORTS.name(), String.join(",", names));
  }

  /**
   * Who carries NVLink SHARP out; by default {@link NvlsMode#AUTO}. All ranks must say the same.
   */
  public CommunicatorConfig withNvlsMode(NvlsMode mode) {
    return with(Settings.NCCL4J_NVLS_MODE.name(), mode.name().toLowerCase(Locale.ROOT));
  }

  /**
   * A setting for this communicator alone, over system properties, environment and files.
   *
   * @param key such as "NCCL_ALGO"
   */
  public CommunicatorConfig with(String key, String value) {
    Map<String, String> changed = new HashMap<>(settings);
    changed.put(Objects.requireNonNull(key), Objects.requireNonNull(value));
    return new CommunicatorConfig(name, Map.copyOf(changed));
  }

  /** The name; empty if none was given. */
  public String name() {
    return name;
  }

  /** The settings for this communicator alone. */
  public Map<String, String> settings() {
    return settings;
  }

  private static String millis(String what, Duration value) {
    if (value.toMillis() < 1) {
      throw new InvalidArgumentException(
          what + " is " + value, "pass a duration of a millisecond or more");
    }
    return value.toMillis() + "ms";
  }
}
