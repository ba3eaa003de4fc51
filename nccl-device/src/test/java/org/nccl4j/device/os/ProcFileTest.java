package org.nccl4j.device.os;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ProcFileTest {
  @TempDir Path folder;

  private Path file(String text) throws IOException {
    return Files.writeString(folder.resolve("file"), text);
  }

  @Test
  void readsTheFirstLineOfAName() throws IOException {
    Path file =
        file("model\t\t: 7\nmodel name\t: A CPU: fast\nmodel name\t: B\nState:\tT (stopped)\n");
    assertEquals(Optional.of("A CPU: fast"), ProcFile.field(file, "model name"));
    assertEquals(Optional.of("7"), ProcFile.field(file, "model"));
    assertEquals(Optional.of("T (stopped)"), ProcFile.field(file, "State"));
    assertEquals(Optional.empty(), ProcFile.field(file, "mode"));
    assertEquals(Optional.empty(), ProcFile.field(folder.resolve("none"), "State"));
  }

  /** A process's name is of any bytes. */
  @Test
  void textsThatAreNotUtf8HideNoField() throws IOException {
    Path file =
        Files.write(
            folder.resolve("file"), new byte[] {'N', ':', (byte) 0xff, '\n', 'S', ':', '1'});
    assertEquals(Optional.of("1"), ProcFile.field(file, "S"));
  }

  @Test
  void kilobytesAreBytes() throws IOException {
    Path file = file("MemFree:  3 kB\nOdd: many kB\nMemAvailable:       17 kB\n");
    assertEquals(17 * 1024, ProcFile.bytes(file, "MemAvailable"));
    assertEquals(0, ProcFile.bytes(file, "MemTotal"));
    assertEquals(0, ProcFile.bytes(file, "Odd"));
    assertTrue(ProcFile.bytes(ProcFile.MEMORY, "MemTotal") > 0);
  }
}
