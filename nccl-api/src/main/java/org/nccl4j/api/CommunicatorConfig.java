package org.nccl4j.api;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.nccl4j.device.InvalidArgumentException;

/** How a communicator is to be made. Immutable; each {@code with} method gives a changed copy. */
public final class CommunicatorConfig {
  private static final CommunicatorConfig DEFAULTS =
      new CommunicatorConfig("", Duration.ofSeconds(60), Duration.ofMinutes(10), Map.of());

  private final String name;
  private final Duration initDeadline;
  private final Duration operationDeadline;
  private final Map<String, String> settings;

  private CommunicatorConfig(
      String name,
      Duration initDeadline,
      Duration operationDeadline,
      Map<String, String> settings) {
    this.name = name;
    this.initDeadline = initDeadline;
    this.operationDeadline = operationDeadline;
    this.settings = settings;
  }

  /** The defaults: 60 s to create, 10 minutes an operation. */
  public static CommunicatorConfig defaults() {
    return DEFAULTS;
  }

  /** A name for messages and logs; by default a number. */
  public CommunicatorConfig withName(String newName) {
    return new CommunicatorConfig(
        Objects.requireNonNull(newName), initDeadline, operationDeadline, settings);
  }

  /** How long creation may take, all ranks together. */
  public CommunicatorConfig withInitDeadline(Duration deadline) {
    return new CommunicatorConfig(
        name, positive("initDeadline", deadline), operationDeadline, settings);
  }

  /** How long an operation may wait for other ranks. */
  public CommunicatorConfig withOperationDeadline(Duration deadline) {
    return new CommunicatorConfig(
        name, initDeadline, positive("operationDeadline", deadline), settings);
  }

  /**
   * A setting for this communicator alone, over system properties, environment and files.
   *
   * @param key such as "NCCL_ALGO"
   */
  public CommunicatorConfig with(String key, String value) {
    Map<String, String> changed = new HashMap<>(settings);
    changed.put(Objects.requireNonNull(key), Objects.requireNonNull(value));
    return new CommunicatorConfig(name, initDeadline, operationDeadline, Map.copyOf(changed));
  }

  /** The transports that may be used, best first; by default all, by priority and name. */
  public CommunicatorConfig withTransports(List<String> names) {
    return with("NCCL4J_TRANSPORTS", String.join(",", names));
  }

  /** The name; empty if none was given. */
  public String name() {
    return name;
  }

  /** How long creation may take. */
  public Duration initDeadline() {
    return initDeadline;
  }

  /** How long an operation may wait for other ranks. */
  public Duration operationDeadline() {
    return operationDeadline;
  }

  /** The settings for this communicator alone. */
  public Map<String, String> settings() {
    return settings;
  }

  private static Duration positive(String what, Duration value) {
    if (value.isNegative() || value.isZero()) {
      throw new InvalidArgumentException(
          what + " is " + value, "pass a duration longer than nothing");
    }
    return value;
  }
}
