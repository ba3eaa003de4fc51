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
  // Parsers are classes: the JVM takes half a millisecond to link a method reference, and the first
  // call of a process waits for it.

  static TopoSetting<Integer> number(String name, int defaultValue) {
    return new TopoSetting<>(name, defaultValue, new NumberParser());
  }

  static TopoSetting<Boolean> flag(String name, boolean defaultValue) {
    return new TopoSetting<>(name, defaultValue, new FlagParser());
  }

  static TopoSetting<String> text(String name, String defaultValue) {
    return new TopoSetting<>(name, defaultValue, new TextParser());
  }

  /** Lists of names, which are empty by default. */
  static TopoSetting<NameLists> names(String name) {
    return new TopoSetting<>(name, NameLists.parse(""), new NamesParser());
  }

  /** A level of distance, which is empty for the default. */
  static TopoSetting<Optional<PathType>> level(String name) {
    return new TopoSetting<>(name, Optional.empty(), new LevelParser());
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

  private static final class NumberParser implements Function<String, Integer> {
    @Override
    public Integer apply(String text) {
      return number(text);
    }
  }

  private static final class FlagParser implements Function<String, Boolean> {
    @Override
    public Boolean apply(String text) {
      return flag(text);
    }
  }

  private static final class TextParser implements Function<String, String> {
    @Override
    public String apply(String text) {
      return text;
    }
  }

  private static final class NamesParser implements Function<String, NameLists> {
    @Override
    public NameLists apply(String text) {
      return NameLists.parse(text);
    }
  }

  private static final class LevelParser implements Function<String, Optional<PathType>> {
    @Override
    public Optional<PathType> apply(String text) {
      return PathType.level(text);
    }
  }
}
