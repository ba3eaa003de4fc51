package org.nccl4j.it.run;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.it.file.GivenPath;

/** One rank's process, and the two threads that pass on what it prints. */
final class RunningRank {
  private final int rank;
  private final Process process;
  private final Consumer<RunningRank> over;
  private final Thread outReader;
  private final Thread errReader;
  private String inputLost = "";

  /** Nobody reads what it prints. */
  private volatile boolean unread;

  private RunningRank(
      int rank, Process process, PrintWriter out, PrintWriter err, Consumer<RunningRank> over) {
    this.rank = rank;
    this.process = process;
    this.over = over;
    outReader = reader(process.inputReader(StandardCharsets.UTF_8), out);
    errReader = reader(process.errorReader(StandardCharsets.UTF_8), err);
    process.onExit().thenRun(() -> over.accept(this));
  }

  /**
   * Starts a rank.
   *
   * @param over told by any thread when it has ended, and when nobody reads what it prints
   * @throws InvalidArgumentException if there is no such program
   */
  static RunningRank start(
      int rank,
      List<String> program,
      Map<String, String> variables,
      PrintWriter out,
      PrintWriter err,
      Consumer<RunningRank> over) {
    ProcessBuilder builder = new ProcessBuilder(program);
    builder.environment().putAll(variables);
    builder.redirectInput(new File("/dev/null"));
    return new RunningRank(rank, started(rank, builder), out, err, over);
  }

  /**
   * Starts a rank by a shell, wherever that is.
   *
   * @param shell that reads what to do
   * @param script what that is; its input stays open until the rank has ended
   * @param over as above
   * @throws InvalidArgumentException if there is no such program as starts the shell
   */
  static RunningRank start(
      int rank,
      List<String> shell,
      String script,
      PrintWriter out,
      PrintWriter err,
      Consumer<RunningRank> over) {
    Process process = started(rank, new ProcessBuilder(shell));
    RunningRank running = new RunningRank(rank, process, out, err, over);
    try {
      process.getOutputStream().write(script.getBytes(StandardCharsets.UTF_8));
      process.getOutputStream().flush();
    } catch (IOException e) {
      running.inputLost =
          "%s takes no input (%s)".formatted(String.join(" ", shell), e.getMessage());
    }
    return running;
  }

  private static Process started(int rank, ProcessBuilder builder) {
    try {
      return builder.start();
    } catch (IOException e) {
      String program = builder.command().get(0);
      Optional<Path> file =
          program.indexOf('/') < 0
              ? Optional.empty()
              : GivenPath.find(program).filter(Files::isRegularFile);
      throw new InvalidArgumentException(
          "rank " + rank + " cannot be started: " + e.getMessage(),
          file.isPresent() && !Files.isExecutable(file.get())
              ? "chmod +x " + program
              : "name a program that is in PATH, or give its path",
          e);
    }
  }

  private Thread reader(BufferedReader lines, PrintWriter to) {
    Thread thread =
        new Thread(
            () -> {
              try (lines) {
                String line;
                while ((line = lines.readLine()) != null) {
                  to.println("[" + rank + "] " + line);
                  if (to.checkError()) { // flushes, too
                    unread = true;
                    over.accept(this);
                    return;
                  }
                }
              } catch (IOException e) {
                to.println("[" + rank + "] (output lost: " + e.getMessage() + ")");
              }
            },
            "output of rank " + rank);
    thread.setDaemon(true);
    thread.start();
    return thread;
  }

  int rank() {
    return rank;
  }

  Process process() {
    return process;
  }

  /** True if nobody reads what it prints: its pipe is closed. */
  boolean isUnread() {
    return unread;
  }

  /** The reason why a shell did not take its script; empty if it did. */
  String inputLost() {
    return inputLost;
  }

  /** Asks it and what it started to end. */
  void terminate() {
    // Looked up first: once it has ended they are no longer its descendants. Signalled after it:
    // a shell whose child ends first may be gone before it hears of the end, and says nothing.
    List<ProcessHandle> descendants = process.descendants().toList();
    // Process.destroy() would close the pipes, and what it prints while it ends would be lost.
    process.toHandle().destroy();
    descendants.forEach(ProcessHandle::destroy);
  }

  /** Ends it and what it started. */
  void kill() {
    process.descendants().forEach(ProcessHandle::destroyForcibly);
    process.toHandle().destroyForcibly();
  }

  /**
   * Waits until all that it printed has been passed on; not for ever, a child may hold the pipe.
   */
  void drain() throws InterruptedException {
    outReader.join(TimeUnit.SECONDS.toMillis(2));
    errReader.join(TimeUnit.SECONDS.toMillis(2));
  }
}
