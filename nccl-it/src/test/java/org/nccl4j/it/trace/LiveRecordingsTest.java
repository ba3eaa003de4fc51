package org.nccl4j.it.trace;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Recordings of processes, with a program in the place of jcmd. */
@Timeout(600)
class LiveRecordingsTest {
  @TempDir Path folder;

  private final List<Process> processes = new ArrayList<>();

  /** A process that handles SIGQUIT, as a JVM does. */
  private long start() throws IOException {
    Process process = new ProcessBuilder("sh", "-c", "trap : QUIT; echo; read end").start();
    processes.add(process);
    process.getInputStream().read();
    return process.pid();
  }

  @AfterEach
  void end() {
    processes.forEach(Process::destroyForcibly);
  }

  private Path jcmd(String script) throws IOException {
    Path file = folder.resolve("jcmd");
    Files.writeString(file, "#!/bin/sh\ncd '%s'\n%s\n".formatted(folder, script));
    assertTrue(file.toFile().setExecutable(true));
    return file;
  }

  /** Each question is answered only once the other process has been asked, too. */
  @Test
  void allProcessesAreAskedAtOnce() throws IOException {
    List<Long> pids = List.of(start(), start());
    Path jcmd =
        jcmd(
            "touch $2.$1; until [ -e $2.%d ] && [ -e $2.%d ]; do sleep 0.05; done"
                .formatted(pids.get(0), pids.get(1)));
    try (LiveRecordings recordings = new LiveRecordings(pids, jcmd, Duration.ofSeconds(120))) {
      assertEquals(Map.of(), recordings.missing());
      assertEquals(2, recordings.dump().size());
      assertEquals(Map.of(), recordings.missing());
    }
    assertTrue(Files.exists(folder.resolve("JFR.stop." + pids.get(0))));
  }

  @Test
  void oneThatRefusesIsMissing() throws IOException {
    List<Long> pids = List.of(start(), start());
    Path jcmd = jcmd("[ $1 = %d ] || { echo no such thing; exit 1; }".formatted(pids.get(1)));
    try (LiveRecordings recordings = new LiveRecordings(pids, jcmd, Duration.ofSeconds(120))) {
      assertEquals(
          Map.of(pids.get(0), "process %d refuses JFR.start: no such thing".formatted(pids.get(0))),
          recordings.missing());
      assertEquals(pids.subList(1, 2), List.copyOf(recordings.dump().keySet()));
    }
  }

  /** A word of a diagnostic command ends at a blank, as the folder of temporary files may have. */
  @Test
  void filesAreQuoted() throws IOException {
    Path jcmd = jcmd("echo \"$@\" >> words");
    List<Long> pids = List.of(start());
    try (LiveRecordings recordings = new LiveRecordings(pids, jcmd, Duration.ofSeconds(120))) {
      recordings.dump();
    }
    String words = Files.readString(folder.resolve("words"));
    assertTrue(words.matches("(?s).* settings=\"[^\"]+\" .* filename=\"[^\"]+\"\n.*"), words);
    assertTrue(words.matches("(?s).* JFR.dump .* filename=\"[^\"]+\"\n.*"), words);
  }
}
