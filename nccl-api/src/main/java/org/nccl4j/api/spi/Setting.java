package org.nccl4j.api.spi;

import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.function.Function;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.topo.TopoSetting;

/**
 * The declaration of a setting: its name, type, default, range, and purpose in one sentence. Only
 * this class parses its text. {@link SettingValues} has the values. A transport declares its own
 * settings, whose names begin with NCCL4J_.
 *
 * @param <T> the type of its values
 */
public final class Setting<T> {
  private final String name;
  private final T defaultValue;
  private final String allowed;
  private final String sentence;
  private final boolean secret;
  private final boolean chosen;
  private final Function<String, T> parser;

  private Setting(
      String name,
      T defaultValue,
      String allowed,
      String sentence,
      boolean secret,
      Function<String, T> parser) {
    this(name, defaultValue, allowed, sentence, secret, false, parser);
  }

  private Setting(
      String name,
      T defaultValue,
      String allowed,
      String sentence,
      boolean secret,
      boolean chosen,
      Function<String, T> parser) {
    this.chosen = chosen;
    this.name = name;
    this.defaultValue = defaultValue;
    this.allowed = allowed;
    this.sentence = sentence;
    this.secret = secret;
    this.parser = parser;
  }

  /**
   * Declares a setting.
   *
   * @param allowed a description of its values
   * @param sentence its purpose
   * @param parser parses the text of a value, without surrounding blanks; throws {@link
   *     IllegalArgumentException} for an invalid value
   * @param <T> the type of its values
   */
  public static <T> Setting<T> of(
      String name, T byDefault, String allowed, String sentence, Function<String, T> parser) {
    return new Setting<>(name, byDefault, allowed, sentence, false, parser);
  }

  /** Declares a setting of the topology, whose name, default and range nccl-topo has. */
  public static <T> Setting<T> of(TopoSetting<T> setting) {
    return of(
        setting.name(),
        setting.defaultValue(),
        setting.allowed(),
        setting.sentence(),
        setting.parser());
  }

  /** Declares a setting with any text. */
  public static Setting<String> text(
      String name, String byDefault, String allowed, String sentence) {
    return of(TopoSetting.text(name, byDefault, allowed, sentence));
  }

  /** Declares a setting whose value is never printed. */
  public static Setting<String> secretText(String name, String sentence) {
    TopoSetting<String> text = TopoSetting.text(name, "", "any text", sentence);
    return new Setting<>(name, "", text.allowed(), sentence, true, text.parser());
  }

  /** Declares a setting whose value is one of some words, in upper or lower case. */
  public static Setting<String> choice(
      String name, String byDefault, List<String> choices, String sentence) {
    return new Setting<>(
        name, byDefault, String.join(", ", choices), sentence, false, new ChoiceParser(choices));
  }

  /** Declares a setting that is on or off. */
  public static Setting<Boolean> flag(String name, boolean byDefault, String sentence) {
    return of(TopoSetting.flag(name, byDefault, sentence));
  }

  /** Declares a setting whose value is a whole number of a range. */
  public static Setting<Integer> number(
      String name, int byDefault, int least, int most, String sentence) {
    return of(TopoSetting.number(name, byDefault, least, most, sentence));
  }

  /** Declares a setting whose value is a duration above 0. */
  public static Setting<Duration> duration(String name, Duration byDefault, String sentence) {
    return new Setting<>(
        name,
        byDefault,
        "a number above 0 and a unit (ms, s, m, h; s if there is none)",
        sentence,
        false,
        new DurationParser(/* orZero= */ false));
  }

  /** Declares a setting whose value is a duration, which may be 0. */
  public static Setting<Duration> durationOrZero(String name, Duration byDefault, String sentence) {
    return new Setting<>(
        name,
        byDefault,
        "0, or a number and a unit (ms, s, m, h; s if there is none)",
        sentence,
        false,
        new DurationParser(/* orZero= */ true));
  }

  /** Declares a setting whose value is a number of bytes. */
  public static Setting<Long> bytes(String name, long byDefault, String sentence) {
    return new Setting<>(
        name,
        byDefault,
        "a number of bytes, 0 or more, with K, M, G or T",
        sentence,
        false,
        new BytesParser());
  }

  /**
   * Declares this setting as one for which the library chooses where it is unset: {@link
   * #defaultText} is empty, and code looks at {@link SettingValues#find}.
   */
  public Setting<T> chosenIfUnset() {
    return new Setting<>(name, defaultValue, allowed, sentence, secret, true, parser);
  }

  /** Returns the setting's name, the same in all sources of values. */
  public String name() {
    return name;
  }

  /** Returns the value of an unset setting. */
  public T defaultValue() {
    return defaultValue;
  }

  /** Returns the text of the default value; empty if the library chooses. */
  public String defaultText() {
    if (chosen) {
      return "";
    }
    if (defaultValue instanceof Duration duration) {
      return duration.toMillisPart() == 0
          ? duration.toString().substring("PT".length()).toLowerCase(Locale.ROOT)
          : duration.toMillis() + "ms";
    }
    if (defaultValue instanceof Boolean flag) {
      return flag ? "1" : "0";
    }
    return defaultValue instanceof Optional ? "" : defaultValue.toString();
  }

  /** Returns the description of its values. */
  public String allowed() {
    return allowed;
  }

  /** Returns the setting's purpose, in one sentence. */
  public String sentence() {
    return sentence;
  }

  /** True if its value must not be printed. */
  public boolean secret() {
    return secret;
  }

  /**
   * Parses the text of a value.
   *
   * @param origin the source of the text, for messages; empty if unknown
   * @throws InvalidArgumentException if the text is not a value of the setting
   */
  public T parse(String text, String origin) {
    try {
      return parser.apply(text.strip());
    } catch (IllegalArgumentException e) {
      throw new InvalidArgumentException(
          ErrorId.SETTING,
          "the setting "
              + name
              + " is \""
              + text
              + "\""
              + (origin.isEmpty() ? "" : " (" + origin + ")")
              + ", which is not one of its values",
          "set " + name + " to " + allowed + ", or unset it",
          e);
    }
  }

  // The parsers of the types above are classes: to link a lambda expression takes the JVM half a
  // millisecond, and a process's first call waits for all that its settings have.

  private record ChoiceParser(List<String> choices) implements Function<String, String> {
    @Override
    public String apply(String text) {
      for (String choice : choices) {
        if (choice.equalsIgnoreCase(text)) {
          return choice;
        }
      }
      throw new IllegalArgumentException("none of the choices");
    }
  }

  private record BytesParser() implements Function<String, Long> {
    @Override
    public Long apply(String text) {
      if (text.isEmpty()) {
        throw new IllegalArgumentException("no number");
      }
      int unit = "KMGT".indexOf(Character.toUpperCase(text.charAt(text.length() - 1)));
      String digits = unit < 0 ? text : text.substring(0, text.length() - 1);
      long number = Long.parseLong(digits);
      long bytes = number << 10 * (unit + 1);
      if (number < 0 || bytes >> 10 * (unit + 1) != number) {
        throw new IllegalArgumentException("out of range");
      }
      return bytes;
    }
  }

  private record DurationParser(boolean orZero) implements Function<String, Duration> {
    @Override
    public Duration apply(String text) {
      return orZero && text.strip().matches("0+(ms|s|m|h)?") ? Duration.ZERO : positive(text);
    }

    private static Duration positive(String text) {
      int digits = 0;
      while (digits < text.length() && Character.isDigit(text.charAt(digits))) {
        digits++;
      }
      long number = Math.min(Long.parseLong(text.substring(0, digits)), Integer.MAX_VALUE * 1000L);
      Duration duration =
          switch (text.substring(digits).trim().toLowerCase(Locale.ROOT)) {
            case "ms" -> Duration.ofMillis(number);
            case "", "s" -> Duration.ofSeconds(number);
            case "m", "min" -> Duration.ofMinutes(number);
            case "h" -> Duration.ofHours(number);
            default -> throw new IllegalArgumentException("not a unit of time");
          };
      if (duration.isZero() || duration.compareTo(Duration.ofDays(365)) > 0) {
        throw new IllegalArgumentException("out of range");
      }
      return duration;
    }
  }
}
