package org.nccl4j.api.settings;

import java.util.Arrays;
import java.util.Collections;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.nccl4j.device.DataType;

/**
 * The kernels that a communicator loads at its creation.
 *
 * @param text as it was set
 * @param types whose reductions are loaded, with all kernels that only copy; empty for no kernels
 */
public record KernelPreload(String text, Set<DataType> types) {
  static final String ALLOWED = "none, all, or types of elements: " + labels();

  /** Which types a communicator reduces is known only when it does. */
  static final KernelPreload EVERY = new KernelPreload("all", EnumSet.allOf(DataType.class));

  /**
   * By a loop, and a class as the parser: a process's first call waits for each lambda expression.
   */
  private static String labels() {
    StringBuilder labels = new StringBuilder();
    for (DataType type : DataType.values()) {
      labels.append(labels.isEmpty() ? "" : ", ").append(type.label());
    }
    return labels.toString();
  }

  /** The parser of the setting. */
  record Parser() implements Function<String, KernelPreload> {
    @Override
    public KernelPreload apply(String text) {
      return parse(text);
    }
  }

  static KernelPreload parse(String text) {
    return switch (text.trim().toLowerCase(Locale.ROOT)) {
      case "none" -> new KernelPreload(text, Set.of());
      case "all" -> EVERY;
      default ->
          new KernelPreload(
              text,
              List.of(text.split(",", -1)).stream()
                  .map(KernelPreload::type)
                  .collect(Collectors.toCollection(() -> EnumSet.noneOf(DataType.class))));
    };
  }

  private static DataType type(String name) {
    return Arrays.stream(DataType.values())
        .filter(type -> type.label().equalsIgnoreCase(name.trim()))
        .findFirst()
        .orElseThrow(() -> new IllegalArgumentException("not a type"));
  }

  /** The types whose kernels to load. */
  @Override
  public Set<DataType> types() {
    return Collections.unmodifiableSet(types);
  }

  @Override
  public String toString() {
    return text;
  }
}
