package org.nccl4j.api.settings;

import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SortedMap;
import java.util.TreeMap;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.os.IoErrorText;

/**
 * The sources of settings, strongest first: the communicator's configuration, Java system
 * properties, the process's environment, the file in NCCL_CONF_FILE (or else {@code ~/.nccl.conf}),
 * {@code /etc/nccl.conf}. A name means the same in all of them. A value of blanks counts as none.
 *
 * <p>The only class that reads the environment. Immutable: a snapshot of the moment it was made.
 */
public final class Environment {
  private static final String CONFIGURATION = "the communicator's configuration";
  private static final Path SYSTEM_FILE = Path.of("/etc/nccl.conf");

  /**
   * A value and where it was found.
   *
   * @param text the value as written
   * @param origin for people: "environment", or the file's name
   */
  public record Value(String text, String origin) {}

  private final SortedMap<String, Value> values = new TreeMap<>();
  private final List<String> ignoredLines = new ArrayList<>();

  private Environment() {}

  /**
   * Returns the environment of this process under a communicator's own settings.
   *
   * @throws InvalidArgumentException if the file that NCCL_CONF_FILE names cannot be read
   */
  public static Environment ofProcess(Map<String, String> overrides) {
    return ofProcess(overrides, CONFIGURATION);
  }

  /** The same under values of another origin, such as an option of a command. */
  static Environment ofProcess(Map<String, String> overrides, String origin) {
    Map<String, String> properties = new LinkedHashMap<>();
    for (String name : System.getProperties().stringPropertyNames()) {
      if (isSetting(name)) {
        properties.put(name, System.getProperty(name));
      }
    }
    Path home = Path.of(System.getProperty("user.home", "/"));
    Environment made = new Environment();
    made.add(overrides, origin);
    made.addProcess(properties, variables(), home.resolve(".nccl.conf"), SYSTEM_FILE);
    return made;
  }

  /** The variables that this process was started with. */
  public static Map<String, String> variables() {
    return System.getenv();
  }

  /** From given sources; the files may be missing. */
  static Environment of(
      Map<String, String> overrides,
      Map<String, String> properties,
      Map<String, String> environment,
      Path userFile,
      Path systemFile) {
    Environment made = new Environment();
    made.add(overrides, CONFIGURATION);
    made.addProcess(properties, environment, userFile, systemFile);
    return made;
  }

  private void addProcess(
      Map<String, String> properties,
      Map<String, String> environment,
      Path userFile,
      Path systemFile) {
    add(properties, "system property");
    add(environment, "environment");
    Optional<Value> named = find(Settings.NCCL_CONF_FILE.name());
    if (named.isPresent()) {
      addFile(SettingFile.path(Settings.NCCL_CONF_FILE, named.get().text()), named.get().origin());
    } else if (Files.isReadable(userFile)) {
      addFile(userFile, "");
    }
    if (Files.isReadable(systemFile)) {
      addFile(systemFile, "");
    }
  }

  /** From a communicator's configuration alone. */
  static Environment of(Map<String, String> configuration) {
    Environment made = new Environment();
    made.add(configuration, CONFIGURATION);
    return made;
  }

  /** These under others, which are stronger. */
  Environment with(Map<String, String> overrides) {
    Environment made = new Environment();
    made.add(overrides, CONFIGURATION);
    values.forEach(made.values::putIfAbsent);
    made.ignoredLines.addAll(ignoredLines);
    return made;
  }

  /** The strongest value of a name, if it has one anywhere. */
  public Optional<Value> find(String name) {
    return Optional.ofNullable(values.get(name));
  }

  /** Everything set whose name begins like a setting's, by name. */
  public SortedMap<String, Value> all() {
    return new TreeMap<>(values);
  }

  /** A sentence for each file with lines that say nothing. */
  List<String> ignoredLines() {
    return ignoredLines;
  }

  private void add(Map<String, String> source, String origin) {
    for (Map.Entry<String, String> each : source.entrySet()) {
      String value = each.getValue().trim();
      if (isSetting(each.getKey()) && !value.isBlank()) {
        values.putIfAbsent(each.getKey(), new Value(value, origin));
      }
    }
  }

  private void addFile(Path file, String namedBy) {
    Map<String, String> found = new LinkedHashMap<>();
    int number = 0;
    int ignored = 0;
    int firstIgnored = 0;
    try {
      for (String each : SettingFile.lines(file)) {
        number++;
        String line = each.strip();
        int equals = line.indexOf('=');
        String name = equals < 0 ? "" : line.substring(0, equals).strip();
        if (line.indexOf('\0') >= 0) {
          throw new FileSystemException(file.toString(), null, "it is not a text file");
        } else if (isName(name)) {
          found.put(name, unquoted(line.substring(equals + 1).strip()));
        } else if (!line.isEmpty() && line.charAt(0) != '#') {
          ignored++;
          firstIgnored = firstIgnored == 0 ? number : firstIgnored;
        }
      }
    } catch (IOException e) {
      throw new InvalidArgumentException(
          ErrorId.SETTING,
          "the settings file "
              + file
              + (namedBy.isEmpty() ? "" : ", named by NCCL_CONF_FILE (" + namedBy + "),")
              + " cannot be read: "
              + IoErrorText.of(e),
          "name a readable text file of lines NAME=VALUE, or unset NCCL_CONF_FILE",
          e);
    }
    add(found, file.toString());
    if (ignored > 0) {
      ignoredLines.add(
          "line %d of %s is ignored%s: write NAME=VALUE, or # in front of a comment"
              .formatted(
                  firstIgnored, file, ignored == 1 ? "" : ", and %d more".formatted(ignored - 1)));
    }
  }

  /** A value without the quotes that a shell would remove. */
  private static String unquoted(String value) {
    int last = value.length() - 1;
    char first = last > 0 ? value.charAt(0) : ' ';
    return (first == '"' || first == '\'') && value.indexOf(first, 1) == last
        ? value.substring(1, last)
        : value;
  }

  /** A loop, since a process's first call would wait for regular expressions. */
  private static boolean isName(String text) {
    for (int i = 0; i < text.length(); i++) {
      char each = text.charAt(i);
      boolean letter = each >= 'A' && each <= 'Z' || each >= 'a' && each <= 'z' || each == '_';
      if (!letter && (i == 0 || each < '0' || each > '9')) {
        return false;
      }
    }
    return !text.isEmpty();
  }

  private static boolean isSetting(String name) {
    return name.startsWith("NCCL_") || name.startsWith("NCCL4J_");
  }
}
