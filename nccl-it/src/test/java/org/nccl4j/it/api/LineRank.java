package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.nccl4j.it.cli.Main;

/** A rank in a process of its own that reads a line for each task, and answers with lines. */
public final class LineRank implements AutoCloseable {
  private static final int PATIENCE_SECONDS = 300;

  private final Process process;
  private final PrintWriter in;
  private final BlockingQueue<String> says = new LinkedBlockingQueue<>();

  /** After its first round; null before. */
  private Footprint before;

  /**
   * Resources of a process. Sockets and threads of its last round may still be ending.
   *
   * @param threads of the library's
   * @param shared mappings of shared memory; the flight recorder's is kept
   */
  private record Footprint(int descriptors, int threads, int shared) {
    boolean isWithin(Footprint before) {
      return before == null
          || descriptors <= before.descriptors
              && threads <= before.threads + 2
              && shared <= before.shared;
    }
  }

  /** Starts the process. */
  public LineRank(List<String> command, ProcessBuilder.Redirect errors) throws IOException {
    process = new ProcessBuilder(command).redirectError(errors).start();
    in = new PrintWriter(process.getOutputStream(), true, StandardCharsets.UTF_8);
    Thread reader = new Thread(this::read, "rank-reader");
    reader.setDaemon(true);
    reader.start();
  }

  private void read() {
    try (BufferedReader out =
        new BufferedReader(
            new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
      for (String line = out.readLine(); line != null; line = out.readLine()) {
        says.add(line);
      }
    } catch (IOException e) {
      // The stream of a killed process may be closed under its reader: the end all the same.
    }
    says.add("ended");
  }

  /** Passes it a line. */
  public void tell(String line) {
    in.println(line);
  }

  /**
   * Returns the next line that it says, or "ended".
   *
   * @param round named if it says nothing for too long
   */
  public String next(String round) throws InterruptedException {
    String said = says.poll(PATIENCE_SECONDS, TimeUnit.SECONDS);
    if (said == null) {
      StringWriter out = new StringWriter();
      Main.run(new PrintWriter(out, true), new PrintWriter(out, true), "diagnose", "-t");
      throw new AssertionError(round + " hangs:\n" + out);
    }
    return said;
  }

  /** Keeps its footprint, if it is the first with the library in it. */
  public void keepFootprint(String round) throws InterruptedException {
    Footprint now = footprint(round);
    // A process that has taken the place of a killed one has yet to load the library.
    before = before == null && now.shared > 0 ? now : before;
  }

  /** Checks that it has no more than after its first round, soon. */
  public void assertNothingIsLeft(String round) throws InterruptedException {
    Footprint after;
    long end = System.nanoTime() + Ranks.PATIENCE_NANOS;
    do {
      after = footprint(round);
    } while (!after.isWithin(before) && System.nanoTime() - end < 0);
    assertTrue(after.isWithin(before), before + ", then " + after);
  }

  private Footprint footprint(String round) throws InterruptedException {
    tell("footprint");
    String[] numbers = next(round).split(" ");
    return new Footprint(
        Integer.parseInt(numbers[0]), Integer.parseInt(numbers[1]), Integer.parseInt(numbers[2]));
  }

  /** Sends it a signal, such as "STOP". */
  public void signal(String name) throws IOException, InterruptedException {
    new ProcessBuilder("kill", "-" + name, Long.toString(process.pid())).start().waitFor();
  }

  /** Kills it. */
  @Override
  public void close() {
    process.destroyForcibly();
  }
}
