package org.nccl4j.it.run;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Ranks that are ended. */
@Timeout(600)
class LocalLaunchTest {
  /** A busy machine may run a rank late. */
  private static final Duration GRACE = Duration.ofSeconds(60);

  @Test
  void whatARankSaysWhileItIsEndedIsShown(@TempDir Path folder) {
    String ready = folder.resolve("ready").toString();
    String script =
        "if test $RANK = 1; then until test -e READY; do sleep 0.02; done; exit 4; fi; "
            + "trap 'echo goodbye; exit 0' TERM; touch READY; sleep 600 & wait";
    List<String> program = List.of("sh", "-c", script.replace("READY", ready));
    StringWriter out = new StringWriter();
    StringWriter err = new StringWriter();
    int status =
        new LocalLaunch(
                GRACE, 2, Placement.HERE, program, new PrintWriter(out), new PrintWriter(err))
            .run();
    assertEquals(4, status, err.toString());
    assertEquals("[0] goodbye", out.toString().strip());
  }
}
