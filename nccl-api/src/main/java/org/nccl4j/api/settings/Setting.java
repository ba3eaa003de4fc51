package org.nccl4j.api.settings;

import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.function.Function;
import org.nccl4j.api.wire.PortRange;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;

/**
 * One setting: its name, type, default, range and what it does in a sentence. The declarations are
 * in {@link Settings}.
 *
 * @param <T> the type of its values
 */
public final class Setting<T> {
  private final String name;
  private final T defaultValue;
  private final String allowed;
  private final String sentence;
  private final boolean secret;
  private final Function<String, T> parser;

  private Setting(
      String name,
      T defaultValue,
      String allowed,
      String sentence,
      boolean secret,
      Function<String, T> parser) {
    this.name = name;
    this.defaultValue = defaultValue;
    this.allowed = allowed;
    this.sentence = sentence;
    this.secret = secret;
    this.parser = parser;
  }

  static Setting<String> text(String name, String byDefault, String allowed, String sentence) {
    return new Setting<>(name, byDefault, allowed, sentence, false, Function.identity());
  }

  static Setting<String> secretText(String name, String sentence) {
    return new Setting<>(name, "", "any text", sentence, true, Function.identity());
  }

  static Setting<String> choice(
      String name, String byDefault, List<String> choices, String sentence) {
    return new Setting<>(
        name,
        byDefault,
        String.join(", ", choices),
        sentence,
        false,
        text ->
            choices.stream()
                .filter(choice -> choice.equalsIgnoreCase(text))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException("none of the choices")));
  }

  /** A choice, or the absolute name of a directory. */
  static Setting<String> choiceOrDirectory(
      String name, String byDefault, List<String> choices, String sentence) {
    Setting<String> choice = choice(name, byDefault, choices, sentence);
    return new Setting<>(
        name,
        byDefault,
        choice.allowed() + ", or the absolute name of a directory",
        sentence,
        false,
        text -> text.startsWith("/") ? text : choice.parser.apply(text));
  }

  static Setting<Boolean> flag(String name, boolean byDefault, String sentence) {
    return new Setting<>(name, byDefault, "0 or 1", sentence, false, Setting::parseFlag);
  }

  static Setting<Integer> number(String name, int byDefault, int least, int most, String sentence) {
    return new Setting<>(
        name,
        byDefault,
        "a whole number from " + least + " to " + most, // a formatter takes 20 ms at its first use
        sentence,
        false,
        text -> {
          int value = Integer.parseInt(text.trim());
          if (value < least || value > most) {
            throw new IllegalArgumentException("out of range");
          }
          return value;
        });
  }

  /** A number of 64 bits. */
  static Setting<Long> wide(String name, long byDefault, String sentence) {
    return new Setting<>(
        name,
        byDefault,
        "a whole number, decimal or with 0x in front",
        sentence,
        false,
        text -> Long.decode(text.trim()));
  }

  static Setting<Duration> duration(String name, Duration byDefault, String sentence) {
    return new Setting<>(
        name,
        byDefault,
        "a number with ms, s, m or h, longer than nothing; without a unit, seconds",
        sentence,
        false,
        Setting::parseDuration);
  }

  static Setting<Long> bytes(String name, long byDefault, String sentence) {
    return new Setting<>(
        name,
        byDefault,
        "a number of bytes, 0 or more, with K, M, G or T",
        sentence,
        false,
        Setting::parseBytes);
  }

  static Setting<Subsystems> subsystems(String name, String sentence) {
    return new Setting<>(
        name,
        Subsystems.DEFAULT,
        "names among " + String.join(", ", Subsystems.NAMES) + ", with ^ in front to exclude",
        sentence,
        false,
        Subsystems::parse);
  }

  static Setting<KernelPreload> kernelPreload(String name, String sentence) {
    return new Setting<>(
        name, KernelPreload.AUTO, KernelPreload.ALLOWED, sentence, false, KernelPreload::parse);
  }

  static Setting<PortRange> ports(String name, String sentence) {
    return new Setting<>(
        name,
        PortRange.ANY,
        "a port or a range of ports within 1-65535, such as 29500-29600",
        sentence,
        false,
        PortRange::parse);
  }

  /** Returns the setting's name, the same in every place where it can be set. */
  public String name() {
    return name;
  }

  /** Returns the value of an unset setting. */
  public T defaultValue() {
    return defaultValue;
  }

  /** Returns the default value as a user would set it. */
  public String defaultText() {
    return defaultValue instanceof Duration duration
        ? duration.toString().substring("PT".length()).toLowerCase(Locale.ROOT)
        : defaultValue.toString();
  }

  /** The values it may have, for people. */
  public String allowed() {
    return allowed;
  }

  /** Returns the setting's purpose, in one sentence. */
  public String sentence() {
    return sentence;
  }

  /** True if its value must not be shown. */
  public boolean secret() {
    return secret;
  }

  /**
   * Returns the setting's value in an environment.
   *
   * @throws InvalidArgumentException if what is set there is none of its values
   */
  T in(Environment environment) {
    Optional<Environment.Value> set = environment.find(name);
    if (set.isEmpty()) {
      return defaultValue;
    }
    try {
      return parser.apply(set.get().text());
    } catch (IllegalArgumentException e) {
      throw new InvalidArgumentException(
          ErrorId.SETTING,
          "the setting "
              + name
              + " is \""
              + set.get().text()
              + "\" ("
              + set.get().origin()
              + "), which is none of its values",
          "set " + name + " to " + allowed + ", or unset it",
          e);
    }
  }

  /**
   * The text of its value as every reader of it takes it: a flag is 0 or 1 whatever word it was set
   * by, so that who reads the text and who reads the value cannot differ.
   *
   * @throws InvalidArgumentException as {@link #in}
   */
  String textIn(Environment environment) {
    return defaultValue instanceof Boolean
        ? in(environment).equals(Boolean.TRUE) ? "1" : "0"
        : environment.find(name).orElseThrow().text();
  }

  private static boolean parseFlag(String text) {
    return switch (text.toLowerCase(Locale.ROOT)) {
      case "1", "true", "yes", "on" -> true;
      case "0", "false", "no", "off" -> false;
      default -> throw new IllegalArgumentException("not a flag");
    };
  }

  private static long parseBytes(String text) {
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

  private static Duration parseDuration(String text) {
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
