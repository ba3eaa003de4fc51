package org.nccl4j.api.observe.flight;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;

/** Systems on which other processes cannot be found, and names of processes that are. */
class FlightReaderTest {
  @Test
  void aSystemWithoutProcessFilesIsNamed(@TempDir Path folder) {
    FlightReader.requireProcesses(folder);
    Path absent = folder.resolve("proc");
    InvalidUsageException e =
        assertThrows(InvalidUsageException.class, () -> FlightReader.requireProcesses(absent));
    assertEquals(ErrorId.UNSUPPORTED, e.id());
    assertTrue(e.problem().contains(absent + ", which Linux does not have"), e.problem());
    assertTrue(e.remedy().contains("--job ID"), e.remedy());
  }

  /** Names are another user's text, and are printed to terminals. */
  @Test
  void namesHaveNoControlCharacters() {
    RankReport report =
        new RankReport(
            new RankReport.ProcessReport("h\u009b2J", 7, "S"),
            1,
            "dé\033[2J\nb",
            0,
            1,
            0,
            0,
            0,
            -1,
            0,
            0,
            false,
            new RankReport.Front(0, 0, 0, 0),
            List.of(),
            List.of(),
            RankReport.Links.NONE,
            "",
            RankReport.Replays.NONE);
    assertEquals("dé?[2J?b", report.name());
    assertEquals("process 7 on h?2J", report.process().toString());
  }
}
