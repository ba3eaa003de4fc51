package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;

/** JCuda's switches are for a whole process, and change nothing in this library. */
@Timeout(600)
class JCudaSwitchTest {
  private static final String NOT_READY = "cuEventQuery:600";

  @TempDir static Path folder;

  @Test
  void exceptionsAndLogsOfJCudaAreOfItsUsersAlone() throws Exception {
    Ran ran =
        FakeGpuProcess.in(folder).run(Map.of("FAKECUDA_FAIL", NOT_READY), JCudaSwitchRanks.class);
    for (String never : List.of("the progress of rank", "Exception", "Executing")) {
      assertFalse(ran.output().contains(never), ran.output());
    }
    assertTrue(ran.output().contains("event is complete: false"), ran.output());
    assertTrue(ran.output().contains("called by the stream"), ran.output());
    assertTrue(ran.output().endsWith("all done\n"), ran.output());
    assertEquals(0, ran.count("misuse"), ran.calls().toString());
  }
}
