package org.nccl4j.api.init.probe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.settings.Settings;

/** The kept speeds of a switch, in the same folder for several processes. */
class SwitchProbeTest {
  private static final InfoLog INFO = new InfoLog(Settings.ofProcess(Map.of()), "rank 0");
  private static final ProbeKey KEY =
      ProbeKey.of("NVIDIA X by the switch", 4, "12080", "", Optional.empty(), "the switch");

  @TempDir Path folder;
  private int processes;

  /** Another name of the folder, as another process has one. */
  private SwitchProbe process() {
    Path other = folder;
    for (int p = processes++; p >= 0; p--) {
      other = other.resolve("nccl4j").resolve("..");
    }
    ProbeCache cache = new ProbeCache(Optional.of(other.resolve("nccl4j")));
    return new SwitchProbe(INFO, 4, () -> KEY, () -> cache);
  }

  private void hourPasses() throws IOException {
    FileTime before = FileTime.from(Instant.now().minus(Duration.ofHours(1)));
    for (Path file : files()) {
      Files.setLastModifiedTime(file, before);
    }
  }

  private List<Path> files() throws IOException {
    try (Stream<Path> files = Files.list(folder.resolve("nccl4j"))) {
      return files.toList();
    }
  }

  private static double known(SwitchProbe process) {
    return SwitchProbe.known(process.shared()).orElseThrow();
  }

  @Test
  void aFastSwitchIsMeasuredOnce() {
    assertTrue(SwitchProbe.isDue(process().shared()));
    assertEquals("", process().keep(400, /* isSlow= */ false));
    assertEquals(400, known(process()), 0.1);
  }

  /** The GPUs were busy once. */
  @Test
  void aSlowSwitchIsMeasuredAgainByAnotherProcess() throws IOException {
    SwitchProbe first = process();
    assertFalse(first.isInDoubt());
    assertTrue(first.keep(90, /* isSlow= */ true).contains("measures again"));
    assertTrue(first.isInDoubt());
    assertEquals(90, known(first), 0.1, "its next communicators do not measure again");
    assertTrue(first.again().contains("a later process measures again"), first.again());
    hourPasses();
    SwitchProbe second = process();
    assertTrue(SwitchProbe.isDue(second.shared()));
    assertEquals("", second.keep(400, /* isSlow= */ false));
    assertEquals(400, known(process()), 0.1);
  }

  @Test
  void theFasterOfTwoSlowResultsIsKept() throws IOException {
    process().keep(90, /* isSlow= */ true);
    hourPasses();
    SwitchProbe second = process();
    String remedy = second.keep(70, /* isSlow= */ true);
    assertEquals(90, known(process()), 0.1);
    assertEquals(90, known(second), 0.1);
    assertEquals(remedy, ", not for the first time" + second.again());
    assertEquals(2, files().size());
    String file = remedy.replaceFirst(".*Delete (.*) to measure again", "$1");
    Files.delete(Path.of(file));
    assertTrue(SwitchProbe.isDue(process().shared()));
  }

  /** Other communicators of the process, and other processes of the job, measured on busy GPUs. */
  @Test
  void resultsOfOneTimeAreOneResult() throws IOException {
    SwitchProbe first = process();
    first.keep(90, /* isSlow= */ true);
    process().keep(80, /* isSlow= */ true);
    hourPasses();
    first.keep(70, /* isSlow= */ true);
    assertTrue(SwitchProbe.isDue(process().shared()));
  }
}
