package org.nccl4j.it.run;

import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;

/**
 * A shell that ends this machine's ranks if this process ends without having done so: after kill -9
 * nothing of this process runs. The shell's input ends with this process.
 */
final class OrphanWatch implements AutoCloseable {
  /** The first line is what to look for in environments; it is secret, so on no command line. */
  private static final String SCRIPT =
      """
      trap '' INT HUP TERM
      read -r mark || exit 0
      read -r done && exit 0
      orphans() { printf '%s' "$mark" | grep -lzsFf - /proc/[0-9]*/environ | cut -d / -f 3; }
      for second in 1 2 3 4 5; do
        found=$(orphans)
        [ -n "$found" ] || exit 0
        kill $found
        sleep 1
      done
      kill -9 $(orphans)
      """;

  private final Process shell;

  private OrphanWatch(Process shell) {
    this.shell = shell;
  }

  /**
   * Starts it; where there is no shell, says so and watches nothing.
   *
   * @param mark a variable that the ranks and what they start have, with its value, and no other
   *     process
   */
  static OrphanWatch start(String mark, PrintWriter err) {
    ProcessBuilder builder = new ProcessBuilder("sh", "-c", SCRIPT);
    builder.redirectOutput(ProcessBuilder.Redirect.DISCARD);
    builder.redirectError(ProcessBuilder.Redirect.DISCARD);
    try {
      OrphanWatch watch = new OrphanWatch(builder.start());
      watch.say(mark);
      return watch;
    } catch (IOException e) {
      err.printf(
          "nccl run: the ranks would outlive a kill -9 of this command (%s)%n", e.getMessage());
      return new OrphanWatch(null);
    }
  }

  private void say(String line) throws IOException {
    OutputStream input = shell.getOutputStream();
    input.write((line + "\n").getBytes(StandardCharsets.UTF_8));
    input.flush();
  }

  /** All ranks have ended. */
  @Override
  public void close() {
    try {
      if (shell != null) {
        say("done");
      }
    } catch (IOException e) {
      shell.destroyForcibly(); // it has ended already
    }
  }
}
