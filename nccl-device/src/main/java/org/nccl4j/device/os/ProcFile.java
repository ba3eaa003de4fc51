package org.nccl4j.device.os;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;

/** Fields of files of /proc with lines such as "MemTotal: 16384 kB". Any thread. */
public final class ProcFile {
  /** The machine's memory. */
  public static final Path MEMORY = Path.of("/proc/meminfo");

  private ProcFile() {}

  /**
   * The value of the first line of a name.
   *
   * @return empty if there is no such line, or if the file cannot be read
   */
  public static Optional<String> field(Path file, String name) {
    try {
      String text = new String(Files.readAllBytes(file), StandardCharsets.UTF_8);
      return text.lines()
          .map(line -> line.split(":", 2))
          .filter(parts -> parts.length == 2 && parts[0].strip().equals(name))
          .map(parts -> parts[1].strip())
          .findFirst();
    } catch (IOException e) {
      return Optional.empty();
    }
  }

  /** The bytes of a field that is in kB, such as MemTotal; 0 if they are not known. */
  public static long bytes(Path file, String name) {
    String digits = field(file, name).orElse("").replaceAll("\\D", "");
    try {
      return digits.isEmpty() ? 0 : 1024 * Long.parseLong(digits);
    } catch (NumberFormatException e) {
      return 0;
    }
  }
}
