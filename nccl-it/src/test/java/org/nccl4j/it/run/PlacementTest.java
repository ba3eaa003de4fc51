package org.nccl4j.it.run;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Programs that a launcher starts. */
@Timeout(600)
class PlacementTest {
  /** As ssh does: a shell splits the words again. */
  private static Placement joining(Path folder) throws IOException {
    Path launcher = folder.resolve("far");
    Files.writeString(launcher, "#!/bin/sh\nshift\nexec sh -c \"$*\"\n");
    assertTrue(launcher.toFile().setExecutable(true));
    return new Placement(List.of("moon"), List.of(launcher.toString(), "{host}"));
  }

  @Test
  void wordsAndInputArriveAsTheyAre(@TempDir Path folder) throws Exception {
    String script = "printf '%s.' \"$@\"; echo; cat";
    List<String> program = List.of("sh", "-c", script, "sh", "a b", "it's", "$HOME", "*", "");
    for (Placement placement :
        List.of(
            joining(folder),
            new Placement(List.of("moon"), List.of("env", "H={host}")),
            Placement.HERE)) {
      Process process = placement.start(0, 1, program);
      try (BufferedReader lines = process.inputReader()) {
        assertEquals("a b.it's.$HOME.*..", lines.readLine());
        try (OutputStream input = process.getOutputStream()) {
          input.write("order\n".getBytes(StandardCharsets.UTF_8));
        }
        assertEquals("order", lines.readLine());
      }
      assertEquals(0, process.waitFor());
    }
  }
}
