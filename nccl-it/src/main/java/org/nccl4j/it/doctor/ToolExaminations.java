package org.nccl4j.it.doctor;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** Programs that some commands use. */
final class ToolExaminations {
  private static final String INSTALL = "apt-get install openmpi-bin libopenmpi-dev gcc";

  private ToolExaminations() {}

  static List<Examination> all() {
    return List.of(new Examination("open mpi", () -> List.of(openMpi())));
  }

  private static Finding openMpi() {
    String run = firstLine("mpirun", "--version");
    String purpose = "; only perf --compare mpi needs it";
    if (run.isEmpty()) {
      return Finding.missing("open mpi", "there is no mpirun in PATH" + purpose, INSTALL);
    }
    return firstLine("mpicc", "--version").isEmpty()
        ? Finding.missing("open mpi", run + ", but no mpicc in PATH" + purpose, INSTALL)
        : Finding.ok("open mpi", run);
  }

  private static String firstLine(String... command) {
    try {
      Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
      process.getOutputStream().close();
      byte[] output = process.getInputStream().readAllBytes();
      if (!process.waitFor(10, TimeUnit.SECONDS)) {
        process.destroyForcibly();
      }
      return new String(output, StandardCharsets.UTF_8).lines().findFirst().orElse("");
    } catch (IOException e) {
      return "";
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return "";
    }
  }
}
