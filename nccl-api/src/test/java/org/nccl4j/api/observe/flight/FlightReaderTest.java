package org.nccl4j.api.observe.flight;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;

/** Systems on which other processes cannot be found. */
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
}
