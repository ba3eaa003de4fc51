package org.nccl4j.it.run;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
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
  void aToolThatDoesNotEndIsKilledWithItsChildren() throws Exception {
    List<String> command = List.of("sh", "-c", "sleep 54321 & wait");
    assertThrows(TimeoutException.class, () -> Tool.run(Duration.ofSeconds(1), command));
    for (ProcessHandle sleeper : sleepers()) {
      sleeper.onExit().get(20, TimeUnit.SECONDS);
    }
  }
}
