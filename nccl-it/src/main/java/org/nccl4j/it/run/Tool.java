package org.nccl4j.it.run;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Runs other programs for what they print. Any thread. */
public final class Tool {
  private Tool() {}

  /**
   * An answer.
   *
   * @param status the program's exit status
   * @param text all that it printed
   */
  public record Answer(int status, String text) {}

  /**
   * Runs a program to its end.
   *
   * @param patience after which it is killed with the programs that it started
   * @throws IOException if it cannot be started
   * @throws TimeoutException if it has not ended in that time
   */
  public static Answer run(Duration patience, List<String> command)
      throws IOException, InterruptedException, TimeoutException {
    // A file, since a pipe may stay open in a program that it started.
    Path output = Files.createTempFile("nccl4j-tool", ".txt");
    try {
      Process process =
          new ProcessBuilder(command)
              .redirectErrorStream(true)
              .redirectOutput(output.toFile())
              .start();
      process.getOutputStream().close();
      try {
        if (!process.waitFor(patience.toNanos(), TimeUnit.NANOSECONDS)) {
          throw new TimeoutException("no answer in " + patience.toSeconds() + " s");
        }
      } finally {
        process.descendants().forEach(ProcessHandle::destroyForcibly);
        process.destroyForcibly();
      }
      return new Answer(
          process.exitValue(), new String(Files.readAllBytes(output), StandardCharsets.UTF_8));
    } finally {
      Files.deleteIfExists(output);
    }
  }
}
