package org.nccl4j.it.perf.rank;

import java.io.BufferedReader;
import java.io.EOFException;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.os.ProcFile;
import org.nccl4j.it.run.Placement;

/**
 * The way to a rank's process: orders through its standard input, answers through its standard
 * output. Its standard error is shown as it comes, and its last lines are kept for the case that it
 * dies.
 */
final class ProcessLink implements RankLink {
  private static final int KEPT_LINES = 20;

  /** A JVM begins within a second on an idle machine. */
  private static final Duration BEGIN = Duration.ofMinutes(5);

  /** Turns of 100 ms that the end of a process may take whose answers have ended. */
  private static final int END_TURNS = 200;

  private final Placement placement;
  private final RankSpec spec;
  private final Process process;
  private final CountDownLatch begun = new CountDownLatch(1);
  private final BlockingQueue<Reply> answers = new ArrayBlockingQueue<>(2);
  private final Deque<String> lastLines = new ArrayDeque<>();
  private final Thread errorReader;
  private volatile boolean ended;

  /** Null until the first order. */
  private ObjectOutputStream orders;

  private ProcessLink(Placement placement, RankSpec spec, Process process, PrintWriter err) {
    this.placement = placement;
    this.spec = spec;
    this.process = process;
    errorReader = daemon("output of rank ", () -> readErrors(err));
    daemon("answers of rank ", this::readAnswers);
  }

  /**
   * Starts a rank.
   *
   * @throws IOException if the command cannot be started
   */
  static ProcessLink start(Placement placement, RankSpec spec, PrintWriter err) throws IOException {
    List<String> program = JavaCommand.of("perf-rank");
    Process process = placement.start(spec.rank(), spec.nRanks(), program);
    // A coordinator that is interrupted takes its ranks with it.
    Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
    return new ProcessLink(placement, spec, process, err);
  }

  private Thread daemon(String name, Runnable work) {
    Thread thread = new Thread(work, name + spec.rank());
    thread.setDaemon(true);
    thread.start();
    return thread;
  }

  private void readAnswers() {
    try (ObjectInputStream in = new ObjectInputStream(process.getInputStream())) {
      begun.countDown();
      while (!ended) {
        answers.put((Reply) in.readObject());
      }
    } catch (EOFException e) {
      ended = true;
    } catch (IOException | ClassNotFoundException e) {
      note("(its answers ended: " + e + ")");
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    } finally {
      ended = true;
      begun.countDown();
    }
  }

  private void readErrors(PrintWriter err) {
    try (BufferedReader lines = process.errorReader(StandardCharsets.UTF_8)) {
      String line;
      while ((line = lines.readLine()) != null) {
        note(line);
        err.println("rank " + spec.rank() + ": " + line);
      }
    } catch (IOException e) {
      note("(its output ended: " + e.getMessage() + ")");
    }
  }

  private void note(String line) {
    synchronized (lastLines) {
      lastLines.add(line);
      if (lastLines.size() > KEPT_LINES) {
        lastLines.remove();
      }
    }
  }

  @Override
  public void give(Command order) {
    try {
      if (orders == null) {
        awaitBegin();
        orders = new ObjectOutputStream(process.getOutputStream());
        orders.writeObject(spec);
      }
      orders.writeObject(order);
      orders.flush();
    } catch (IOException e) {
      throw dead();
    }
  }

  /** Its first output shows that it reads its input, and no shell does any more. */
  private void awaitBegin() {
    try {
      if (!begun.await(BEGIN.toNanos(), TimeUnit.NANOSECONDS)) {
        throw new TimeoutException(
            "rank %d has not begun within %d s %s"
                .formatted(spec.rank(), BEGIN.toSeconds(), lastWords()),
            placement.isHere() ? "see what keeps this machine busy" : Placement.UNREACHED_REMEDY);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new InternalErrorException(
          "the coordinator was interrupted while it waited for rank " + spec.rank(),
          "run the command again",
          e);
    }
    if (ended && answers.isEmpty()) {
      throw dead();
    }
  }

  @Override
  public Reply poll(Duration patience) throws InterruptedException {
    long deadline = System.nanoTime() + patience.toNanos();
    while (true) {
      long left = deadline - System.nanoTime();
      long turn = Math.max(0, Math.min(left, TimeUnit.MILLISECONDS.toNanos(250)));
      Reply answer = answers.poll(turn, TimeUnit.NANOSECONDS);
      if (answer != null || left <= 0) {
        return answer;
      }
      if (ended && answers.isEmpty()) {
        throw dead();
      }
    }
  }

  private NcclException dead() {
    boolean interrupted = Thread.interrupted(); // it would cut the waits short
    try {
      // In turns: where the whole machine stands still, Java learns of the end after a turn has
      // passed.
      for (int turn = 0; turn < END_TURNS && !process.waitFor(100, TimeUnit.MILLISECONDS); ) {
        turn++;
      }
      errorReader.join(TimeUnit.SECONDS.toMillis(10));
    } catch (InterruptedException e) {
      interrupted = true;
    }
    NcclException death = death();
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
    return death;
  }

  private NcclException death() {
    if (!process.isAlive() && placement.isUnreached(process.exitValue())) {
      return new RemoteException(
          ErrorId.RANK_DIED,
          "rank %d: %s%s"
              .formatted(
                  spec.rank(),
                  placement.unreached(spec.rank(), spec.nRanks(), process.exitValue()),
                  printed()),
          Placement.UNREACHED_REMEDY,
          null);
    }
    return new RemoteException(
        ErrorId.RANK_DIED,
        "rank " + spec.rank() + " " + lastWords(),
        "see its output; status 137 is a kill, often because memory was short (see dmesg)",
        null);
  }

  @Override
  public String lastWords() {
    return "(process "
        + process.pid()
        + ") "
        + (process.isAlive() ? "is " + state() : "ended with status " + process.exitValue())
        + printed();
  }

  private String printed() {
    StringBuilder words = new StringBuilder();
    synchronized (lastLines) {
      words.append(lastLines.isEmpty() ? ", and printed nothing" : "; it printed last:");
      lastLines.forEach(line -> words.append("\n    ").append(line));
    }
    return words.toString();
  }

  /** Returns the process state that the operating system shows, such as "T (stopped)". */
  private String state() {
    return ProcFile.field(Path.of("/proc/" + process.pid() + "/status"), "State")
        .map(state -> "in state " + state)
        .orElse("alive");
  }

  @Override
  public void close() {
    boolean first = !ended;
    ended = true;
    try {
      if (first && process.waitFor(1, TimeUnit.SECONDS)) {
        return;
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    process.destroyForcibly();
  }
}
