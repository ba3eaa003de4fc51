package org.nccl4j.api.settings;

import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Function;

/**
 * Parts of the library that log, by NCCL's names.
 *
 * @param names of those that do
 */
public record Subsystems(Set<String> names) {
  static final String ALL = "ALL";

  static final List<String> NAMES =
      List.of(
          "INIT",
          "COLL",
          "P2P",
          "SHM",
          "NET",
          "GRAPH",
          "TUNING",
          "ENV",
          "ALLOC",
          "CALL",
          "PROXY",
          "NVLS",
          "BOOTSTRAP",
          "REG",
          "PROFILE",
          "RAS",
          ALL);

  /** Subsystems that NCCL logs by default. */
  static final Subsystems DEFAULT = new Subsystems(Set.of("INIT", "BOOTSTRAP", "ENV"));

  /** The parser of the setting. */
  record Parser() implements Function<String, Subsystems> {
    @Override
    public Subsystems apply(String text) {
      return parse(text);
    }
  }

  /** Names with commas between them, or with ^ in front those that do not log. */
  static Subsystems parse(String text) {
    boolean exclude = text.startsWith("^");
    Set<String> named = new TreeSet<>();
    for (String part : (exclude ? text.substring(1) : text).split(",")) {
      String name = part.trim().toUpperCase(Locale.ROOT);
      if (!NAMES.contains(name)) {
        throw new IllegalArgumentException(part + " is no subsystem");
      }
      named.add(name);
    }
    Set<String> logging = new TreeSet<>(exclude ? NAMES : named);
    if (exclude) {
      logging.removeAll(named);
      logging.remove(ALL);
    } else if (named.contains(ALL)) {
      logging.addAll(NAMES);
    }
    return new Subsystems(logging);
  }

  /** The subsystem of a transport's name; that of communicators' creation where it has none. */
  public static String of(String transport) {
    String name = transport.toUpperCase(Locale.ROOT);
    return NAMES.contains(name) ? name : "INIT";
  }

  /** True if any of some logs. */
  public boolean logAny(String... some) {
    for (String each : some) {
      if (names.contains(each)) {
        return true;
      }
    }
    return false;
  }

  @Override
  public String toString() {
    return String.join(",", new TreeSet<>(names));
  }
}
