package org.nccl4j.it.run;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.os.OtherProcess;
import org.nccl4j.device.support.Patience;
import org.nccl4j.it.api.LongerDeadline;

@Timeout(600)
class ToolTest {
  private static final Duration LONG = Duration.ofSeconds(50);

  @Test
  void whatAToolPrintsAndItsStatus() throws Exception {
    List<String> command = List.of("sh", "-c", "echo one; echo two >&2; exit 3");
    assertEquals(new Tool.Answer(3, "one\ntwo\n"), Tool.run(LONG, command));
    assertThrows(IOException.class, () -> Tool.run(LONG, List.of("/absent/tool")));
  }

  private static List<ProcessHandle> sleepers() {
    return ProcessHandle.allProcesses()
        .filter(each -> List.of(each.info().arguments().orElse(new String[0])).contains("54321"))
        .toList();
  }

  /** Its children keep its output open, which a read would wait for. */
  @Test
  void aToolThatDoesNotEndIsKilledWithItsChildren(@TempDir Path folder) throws Throwable {
    LongerDeadline.retry(
        Duration.ofSeconds(1),
        deadline -> assertKilledWithItsChildren(folder.resolve("begun-" + deadline), deadline));
  }

  private static void assertKilledWithItsChildren(Path begun, Duration deadline) throws Exception {
    List<String> command = List.of("sh", "-c", "sleep 54321 & touch " + begun + "; wait");
    assertThrows(TimeoutException.class, () -> Tool.run(deadline, command));
    assertTrue(Files.exists(begun), "the child has not begun");
    for (ProcessHandle sleeper : sleepers()) {
      BooleanSupplier hasEnded = () -> OtherProcess.hasEnded(sleeper.pid());
      assertTrue(Patience.until(hasEnded, Duration.ofSeconds(300)), () -> sleeper + " goes on");
    }
  }
}
