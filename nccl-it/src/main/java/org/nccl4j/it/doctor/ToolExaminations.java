package org.nccl4j.it.doctor;

import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeoutException;
import org.nccl4j.it.run.Tool;

/** Programs that some commands use. */
final class ToolExaminations {
  private static final String INSTALL = "apt-get install openmpi-bin libopenmpi-dev gcc";

  private static final Duration PATIENCE = Duration.ofSeconds(10);

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
      return Tool.run(PATIENCE, List.of(command)).text().lines().findFirst().orElse("");
    } catch (TimeoutException e) {
      return String.join(" ", command) + " gives " + e.getMessage();
    } catch (IOException e) {
      return "";
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return "";
    }
  }
}
