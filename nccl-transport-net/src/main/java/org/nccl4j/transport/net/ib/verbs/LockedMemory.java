package org.nccl4j.transport.net.ib.verbs;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.OptionalLong;
import java.util.stream.Stream;

/**
 * The limit on memory that this process may lock, which all memory that an adapter reads or writes
 * counts against (ulimit -l).
 */
public final class LockedMemory {
  /** The error number for it. */
  static final int ENOMEM = 12;

  private static final Path LIMITS = Path.of("/proc/self/limits");

  private LockedMemory() {}

  /** The limit in bytes; empty if there is none or it is not known. */
  public static OptionalLong limit() {
    try (Stream<String> lines = Files.lines(LIMITS)) {
      return lines
          .filter(line -> line.startsWith("Max locked memory"))
          .map(line -> line.substring("Max locked memory".length()).strip().split("\\s+")[0])
          .filter(soft -> !soft.equals("unlimited"))
          .mapToLong(Long::parseLong)
          .findFirst();
    } catch (IOException | NumberFormatException e) {
      return OptionalLong.empty();
    }
  }

  /** Returns the remedy for memory that could not be locked. */
  static String remedy() {
    OptionalLong limit = limit();
    String raise =
        "ulimit -l unlimited (docker run --ulimit memlock=-1, LimitMEMLOCK=infinity in a systemd"
            + " unit, or memlock in /etc/security/limits.conf)";
    return limit.isEmpty()
        ? "free memory; the limit on locked memory (ulimit -l) is not in the way"
        : "raise the limit on locked memory, now %d KiB (ulimit -l): %s"
            .formatted(limit.getAsLong() >> 10, raise);
  }
}
