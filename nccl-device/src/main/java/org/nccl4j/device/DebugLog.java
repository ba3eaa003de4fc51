package org.nccl4j.device;

import java.io.IOException;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.text.MessageFormat;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.MissingResourceException;
import java.util.ResourceBundle;
import org.nccl4j.device.os.IoErrorText;
import org.nccl4j.device.os.ThisProcess;

/**
 * Logs for a subsystem of the library: to {@link System.Logger} under the name "org.nccl4j." and
 * the subsystem's, or, after {@link #toFile}, to a file as in NCCL_DEBUG_FILE. Transports log
 * through it too. Any thread.
 */
public final class DebugLog implements System.Logger {
  /** The target of lines; a process has one for all its communicators. */
  private record Target(Path path, Writer writer, Level least) {}

  private static volatile Target target;
  private static volatile boolean silent;

  private final String subsystem;

  /** Null until a line may have to be written: the JDK's first logger takes 40 ms. */
  private volatile System.Logger usual;

  private DebugLog(String subsystem) {
    this.subsystem = subsystem;
  }

  /**
   * The log of a subsystem.
   *
   * @param subsystem NCCL's name of it, such as NET
   */
  public static System.Logger of(String subsystem) {
    return new DebugLog(subsystem);
  }

  /** Has this process log nothing, unless {@link #toFile} names a file. */
  public static void silence() {
    silent = true;
  }

  /**
   * Directs all logging to a file from now on, appending to it. The first file that a process names
   * is used for all its communicators.
   *
   * @param pattern the file's name, see {@link #expand}
   * @param least level; lower levels are not logged
   * @throws InvalidArgumentException if the file cannot be written
   */
  public static synchronized void toFile(String pattern, Level least) {
    Path path = expand(pattern);
    if (target != null) {
      if (!target.path.equals(path)) {
        DebugLog log = new DebugLog("ENV");
        log.log(
            Level.WARNING,
            "NCCL_DEBUG_FILE is {0}: this process logs to {1} already",
            path,
            target.path);
      } else if (least.getSeverity() < target.least.getSeverity()) {
        target = new Target(path, target.writer, least);
      }
      return;
    }
    try {
      Writer writer =
          Files.newBufferedWriter(
              path, StandardCharsets.UTF_8, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
      target = new Target(path, writer, least);
    } catch (IOException e) {
      throw new InvalidArgumentException(
          ErrorId.SETTING,
          "the file %s, which NCCL_DEBUG_FILE names, cannot be written: %s"
              .formatted(path, IoErrorText.of(e)),
          "set NCCL_DEBUG_FILE to a file in an existing directory, or unset it",
          e);
    }
  }

  /** The file's name with %h replaced by the host's name, %p by the process's number, %% by %. */
  public static Path expand(String pattern) {
    StringBuilder name = new StringBuilder();
    for (int i = 0; i < pattern.length(); i++) {
      char next = i + 1 < pattern.length() ? pattern.charAt(i + 1) : 0;
      if (pattern.charAt(i) != '%' || "hp%".indexOf(next) < 0) {
        name.append(pattern.charAt(i));
      } else {
        i++;
        name.append(next == 'h' ? hostName() : next == 'p' ? ThisProcess.pid() : "%");
      }
    }
    return Path.of(name.toString());
  }

  /** This host's name, "?" if unknown. */
  public static String hostName() {
    String name = ThisProcess.hostName();
    return name.isEmpty() ? "?" : name;
  }

  @Override
  public String getName() {
    return "org.nccl4j." + subsystem;
  }

  @Override
  public boolean isLoggable(Level level) {
    Target file = target;
    return file == null
        ? !silent && usual().isLoggable(level)
        : level != Level.OFF && level.getSeverity() >= file.least.getSeverity();
  }

  @Override
  public void log(Level level, ResourceBundle bundle, String message, Throwable thrown) {
    Target file = target;
    if (file == null) {
      if (!silent) {
        usual().log(level, bundle, message, thrown);
      }
    } else if (isLoggable(level)) {
      write(file, level, translated(bundle, message) + (thrown == null ? "" : ": " + thrown));
    }
  }

  @Override
  public void log(Level level, ResourceBundle bundle, String format, Object... parameters) {
    Target file = target;
    if (file == null) {
      if (!silent) {
        usual().log(level, bundle, format, parameters);
      }
    } else if (isLoggable(level)) {
      String message = translated(bundle, format);
      boolean plain = parameters == null || parameters.length == 0;
      write(file, level, plain ? message : MessageFormat.format(message, parameters));
    }
  }

  private System.Logger usual() {
    System.Logger found = usual;
    if (found == null) {
      found = System.getLogger(getName());
      usual = found;
    }
    return found;
  }

  private static String translated(ResourceBundle bundle, String message) {
    try {
      return bundle == null ? message : bundle.getString(message);
    } catch (MissingResourceException e) {
      return message;
    }
  }

  /** Writes and flushes one line, so that the file has the last one after a crash. */
  private void write(Target file, Level level, String message) {
    String line =
        "%s %s:%d %s %s %s%n"
            .formatted(
                Instant.now().truncatedTo(ChronoUnit.MILLIS),
                hostName(),
                ThisProcess.pid(),
                subsystem,
                level == Level.WARNING ? "WARN" : level.getName(),
                message);
    synchronized (DebugLog.class) {
      try {
        file.writer.write(line);
        file.writer.flush();
      } catch (IOException e) {
        target = null;
        log(Level.WARNING, "{0} cannot be written any more: {1}", file.path, IoErrorText.of(e));
        log(level, message);
      }
    }
  }
}
