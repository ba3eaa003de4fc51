package org.nccl4j.it.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.it.perf.rank.JavaCommand;

/** The command line of users whose language has digits of its own. */
@Timeout(600)
class LanguageTest {
  /** No process has this number. */
  private static final String NOBODY = "2147483647";

  @Test
  void numbersHaveTheDigitsThatProgramsRead() throws Exception {
    List<String> command = JavaCommand.of("top", NOBODY, "-n", "1");
    command.addAll(1, List.of("-Duser.language=fa", "-Duser.country=IR"));
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertTrue(process.waitFor(300, TimeUnit.SECONDS));
    assertEquals(1, process.exitValue(), said);
    assertTrue(said.contains("process " + NOBODY + " has no flight recorder"), said);
  }
}
