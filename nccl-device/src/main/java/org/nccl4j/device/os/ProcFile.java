package org.nccl4j.device.os;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
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
    try (BufferedReader lines =
        new BufferedReader(new InputStreamReader(Files.newInputStream(file), UTF_8))) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        int colon = line.indexOf(':');
        if (colon >= 0 && line.substring(0, colon).strip().equals(name)) {
          return Optional.of(line.substring(colon + 1).strip());
        }
      }
      return Optional.empty();
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
