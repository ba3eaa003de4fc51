package org.nccl4j.it.run;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.PrintWriter;
import java.io.StringWriter;
import org.junit.jupiter.api.Test;
import org.nccl4j.it.cli.Main;
import picocli.CommandLine;

class ExitStatusTest {
  @Test
  void noCommunicatorIsAStatusOfItsOwn() {
    StringWriter err = new StringWriter();
    CommandLine command = new CommandLine(new Main()).getSubcommands().get("diagnose");
    command.setErr(new PrintWriter(err));
    assertEquals(3, ExitStatus.noCommunicator(command));
    assertTrue(err.toString().startsWith("nccl diagnose: no process of this host"), err::toString);
    assertTrue(
        err.toString().contains("\n  remedy: run this while the program runs"), err::toString);
  }
}
