package org.nccl4j.device.os;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class OtherProcessTest {
  @TempDir private Path processes;

  private void process(int pid, String status) throws IOException {
    Path folder = Files.createDirectories(processes.resolve(Integer.toString(pid)));
    Files.writeString(folder.resolve("status"), status);
  }

  @Test
  void aProcessHasEndedOnceItIsGoneOrWaitsForItsParent() throws IOException {
    process(1, "Name:\ta\nState:\tS (sleeping)\n");
    process(2, "Name:\ta\nState:\tT (stopped)\n");
    process(3, "Name:\ta\nState:\tZ (zombie)\n");
    process(4, "Name:\ta\nState:\tX (dead)\n");
    process(5, "");
    process(7, "Name:\ta\nState:\tZ (zombie)\nThreads:\t1\n");
    process(8, "Name:\ta\nState:\tZ (zombie)\nThreads:\t3\n");
    assertFalse(OtherProcess.hasEnded(processes, 1));
    assertFalse(OtherProcess.hasEnded(processes, 2));
    assertTrue(OtherProcess.hasEnded(processes, 3));
    assertTrue(OtherProcess.hasEnded(processes, 4));
    assertFalse(OtherProcess.hasEnded(processes, 5), "not known");
    assertTrue(OtherProcess.hasEnded(processes, 6));
    assertTrue(OtherProcess.hasEnded(processes, 7));
    assertFalse(OtherProcess.hasEnded(processes, 8), "main has ended, not its other threads");
    assertFalse(OtherProcess.hasEnded(ThisProcess.pid()));
  }
}
