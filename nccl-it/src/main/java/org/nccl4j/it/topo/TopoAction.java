package org.nccl4j.it.topo;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.io.PrintWriter;
import java.util.concurrent.Callable;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.os.IoErrorText;
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
      return 0;
    } catch (IOException e) {
      throw new InvalidArgumentException(
          ErrorId.FILE,
          "the output cannot be written (%s)".formatted(IoErrorText.of(e)),
          "see that there is room where it goes",
          e);
    } finally {
      out.flush();
    }
  }
}
