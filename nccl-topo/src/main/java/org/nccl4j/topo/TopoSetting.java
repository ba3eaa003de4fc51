package org.nccl4j.topo;

import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.function.Function;

/**
 * A setting that acts on topology, search and tuning: its name, default and grammar.
 *
 * @param name NCCL's
 * @param defaultValue the value of an unset setting
 * @param parser parses the text of a value, without blanks around it; throws {@link
 *     IllegalArgumentException} if it is no value
 * @param <T> the type of its values
 */
public record TopoSetting<T>(String name, T defaultValue, Function<String, T> parser) {
  static TopoSetting<Integer> number(String name, int defaultValue) {
    return new TopoSetting<>(name, defaultValue, TopoSetting::number);
  }

  static TopoSetting<Boolean> flag(String name, boolean defaultValue) {
    return new TopoSetting<>(name, defaultValue, TopoSetting::flag);
  }

  static TopoSetting<String> text(String name, String defaultValue) {
    return new TopoSetting<>(name, defaultValue, Function.identity());
  }

  /** Lists of names, which are empty by default. */
  static TopoSetting<NameLists> names(String name) {
    return new TopoSetting<>(name, NameLists.parse(""), NameLists::parse);
  }

  /** A level of distance, which is empty for the default. */
  static TopoSetting<Optional<PathType>> level(String name) {
    return new TopoSetting<>(name, Optional.empty(), PathType::level);
  }

  /** Parses a whole number in C's notation. */
  public static int number(String text) {
    OptionalLong value = CNumber.whole(text);
    if (value.isEmpty() || value.getAsLong() != (int) value.getAsLong()) {
      throw new IllegalArgumentException("not a whole number");
    }
    return (int) value.getAsLong();
  }

  /** Parses a word for on or off. */
  public static boolean flag(String text) {
    String word = text.toLowerCase(Locale.ROOT);
    if (List.of("1", "true", "yes", "on").contains(word)) {
      return true;
    }
    if (List.of("0", "false", "no", "off").contains(word)) {
      return false;
    }
    throw new IllegalArgumentException("not a flag");
  }
}
