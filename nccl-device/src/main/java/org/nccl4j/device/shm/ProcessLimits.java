package org.nccl4j.device.shm;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.OptionalLong;
import java.util.stream.Stream;

/** The kernel's limits on this process. Any thread. */
public final class ProcessLimits {
  /** Open file descriptors (ulimit -n). */
  public static final String OPEN_FILES = "Max open files";

  /** Bytes of memory that the kernel may not move or swap (ulimit -l). */
  public static final String LOCKED_MEMORY = "Max locked memory";

  private static final Path LIMITS = Path.of("/proc/self/limits");

  private ProcessLimits() {}

  /**
   * A soft limit, as it is now.
   *
   * @param name as /proc/self/limits writes it
   * @return empty if it is unlimited, or if the system does not tell it
   */
  public static OptionalLong soft(String name) {
    try (Stream<String> lines = Files.lines(LIMITS)) {
      return soft(name, lines);
    } catch (IOException | NumberFormatException e) {
      return OptionalLong.empty();
    }
  }

  /** A soft limit in the lines of /proc/self/limits. */
  static OptionalLong soft(String name, Stream<String> lines) {
    return lines
        .filter(line -> line.startsWith(name))
        .map(line -> line.substring(name.length()).strip().split("\\s+")[0])
        .filter(soft -> !soft.equals("unlimited"))
        .mapToLong(Long::parseLong)
        .findFirst();
  }
}
