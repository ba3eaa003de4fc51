package org.nccl4j.topo;

import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.function.Function;

/**
 * The declaration of a setting: its name, default, range, and purpose in one sentence.
 *
 * @param name NCCL's
 * @param defaultValue the value of an unset setting
 * @param allowed a description of its values
 * @param sentence its purpose
 * @param parser parses the text of a value, without blanks around it; throws {@link
 *     IllegalArgumentException} if it is no value
 * @param <T> the type of its values
 */
public record TopoSetting<T>(
    String name, T defaultValue, String allowed, String sentence, Function<String, T> parser) {
  private static final String LEVELS =
      "LOC, NVL, PIX, PXB, PHB or SYS (or a number from 0 to 5 for LOC to SYS)";

  // Parsers are classes: the JVM takes half a millisecond to link a method reference, and the first
  // call of a process waits for it.

  /** Declares a setting whose value is a whole number of a range. */
  public static TopoSetting<Integer> number(
      String name, int defaultValue, int least, int most, String sentence) {
    String allowed =
        "a whole number from " + least + " to " + most; // a formatter takes 20 ms at its first use
    return new TopoSetting<>(name, defaultValue, allowed, sentence, new NumberParser(least, most));
  }

  /** Declares a setting that is on or off. */
  public static TopoSetting<Boolean> flag(String name, boolean defaultValue, String sentence) {
    return new TopoSetting<>(
        name,
        defaultValue,
        "0 or 1; also false or true, no or yes, off or on",
        sentence,
        new FlagParser());
  }

  /** Declares a setting with any text. */
  public static TopoSetting<String> text(
      String name, String defaultValue, String allowed, String sentence) {
    return new TopoSetting<>(name, defaultValue, allowed, sentence, new TextParser());
  }

  /** Declares a setting whose texts match a pattern, in any case; it has them in upper case. */
  static TopoSetting<String> matching(
      String name, String defaultValue, String pattern, String allowed, String sentence) {
    return new TopoSetting<>(name, defaultValue, allowed, sentence, new WordParser(pattern));
  }

  /** Declares lists of names, which are empty by default. */
  static TopoSetting<NameLists> names(String name, String allowed, String sentence) {
    return new TopoSetting<>(name, NameLists.parse(""), allowed, sentence, new NamesParser());
  }

  /** Declares a level of distance, which is empty for the default. */
  static TopoSetting<Optional<PathType>> level(String name, String sentence) {
    return new TopoSetting<>(name, Optional.empty(), LEVELS, sentence, new LevelParser());
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

  private record NumberParser(int least, int most) implements Function<String, Integer> {
    @Override
    public Integer apply(String text) {
      int value = number(text);
      if (value < least || value > most) {
        throw new IllegalArgumentException("out of range");
      }
      return value;
    }
  }

  private record FlagParser() implements Function<String, Boolean> {
    @Override
    public Boolean apply(String text) {
      return flag(text);
    }
  }

  private record TextParser() implements Function<String, String> {
    @Override
    public String apply(String text) {
      return text;
    }
  }

  private record NamesParser() implements Function<String, NameLists> {
    @Override
    public NameLists apply(String text) {
      return NameLists.parse(text);
    }
  }

  private record LevelParser() implements Function<String, Optional<PathType>> {
    @Override
    public Optional<PathType> apply(String text) {
      Optional<PathType> level = PathType.level(text);
      if (level.isEmpty() && !text.isEmpty()) {
        throw new IllegalArgumentException("not a level");
      }
      return level;
    }
  }

  private record WordParser(String pattern) implements Function<String, String> {
    @Override
    public String apply(String text) {
      String word = text.toUpperCase(Locale.ROOT);
      if (!word.matches(pattern)) {
        throw new IllegalArgumentException("not one of the words");
      }
      return word;
    }
  }
}
