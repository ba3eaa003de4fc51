package org.nccl4j.it.topo;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.io.PrintWriter;
import java.util.concurrent.Callable;
import org.nccl4j.api.settings.IoErrorText;
import org.nccl4j.topo.TopologyException;
import picocli.CommandLine.Mixin;

/** The common part of the topology commands: a machine, and errors with a remedy. */
abstract class TopoAction implements Callable<Integer> {
  @Mixin private MachineOptions machine;

  /** Prints. */
  abstract void print(MachineOptions asked, PrintWriter out) throws IOException;

  /** A generator that leaves the output open when it is closed. */
  static JsonGenerator json(PrintWriter out) throws IOException {
    return new JsonFactory().createGenerator(out).disable(JsonGenerator.Feature.AUTO_CLOSE_TARGET);
  }

  @Override
  public final Integer call() {
    PrintWriter out = machine.out();
    machine.check();
    try {
      print(machine, out);
      out.flush();
      return 0;
    } catch (TopologyException e) {
      out.flush();
      machine.err().println(machine.command() + ": " + e.problem());
      machine.err().println("  remedy: " + e.remedy());
    } catch (IOException e) {
      out.flush();
      machine
          .err()
          .println(machine.command() + ": a file cannot be written (" + IoErrorText.of(e) + ")");
      machine.err().println("  remedy: name a file in an existing folder that you may write to");
    }
    machine.err().flush();
    return 1;
  }
}
