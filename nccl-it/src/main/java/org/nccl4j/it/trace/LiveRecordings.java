package org.nccl4j.it.trace;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import java.util.regex.Pattern;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.os.IoErrorText;
import org.nccl4j.device.support.Patience;
import org.nccl4j.it.file.TemporaryFolder;
import org.nccl4j.it.run.Tool;

/**
 * Recordings of running processes, made by the JDK's {@code jcmd}; closing it ends all of them and
 * removes their files, and so does the end of this process. A process that refuses costs the others
 * nothing: {@link #missing} names it.
 */
final class LiveRecordings implements AutoCloseable {
  private static final String NAME_ALIVE =
      "name Java processes of this host, user and container that run";
  private static final Duration PATIENCE = Duration.ofSeconds(30);

  /** Processes that are asked at once, at most: each takes a process of jcmd. */
  private static final int MOST_ASKED = 64;

  private static final long LOOK_NANOS = 50_000_000;
  private static final Pattern EXCEPTION = Pattern.compile("^[\\w.$]+(Exception|Error): ");
  private static final List<String> EVENTS =
      List.of("Operation", "ProxyStep", "InitPhase", "Failure", "Stall");

  private final Path jcmd;
  private final Duration patience;
  private final TemporaryFolder folder;

  /** Processes that were asked to record, also if the answer did not come. */
  private final List<Long> asked = new ArrayList<>();

  private final List<Long> recorded = new ArrayList<>();
  private boolean ended;

  /** Another one for each trace: several may record a process at once. */
  private final String name;

  /** Problems by process. */
  private final Map<Long, String> missing = new LinkedHashMap<>();

  /**
   * Begins to record.
   *
   * @throws SystemErrorException if no process can be recorded
   */
  LiveRecordings(List<Long> pids) {
    this(pids, Path.of(System.getProperty("java.home"), "bin", "jcmd"), PATIENCE);
  }

  /**
   * Begins to record.
   *
   * @param jcmd the JDK's, or one like it
   * @param patience time that all processes together have for an answer
   */
  LiveRecordings(List<Long> pids, Path jcmd, Duration patience) {
    this.jcmd = jcmd;
    this.patience = patience;
    if (!Files.isExecutable(jcmd)) {
      throw new SystemErrorException(
          ErrorId.SYSTEM,
          "this Java has no jcmd (%s), which starts recordings of other processes".formatted(jcmd),
          "run ./nccl with a JDK, or start the program with -XX:StartFlightRecording and pass its"
              + " .jfr file");
    }
    this.folder = createFolder();
    this.name = folder.path().getFileName().toString();
    folder.endFirst(this::stop);
    try {
      Path settings = folder.path().resolve("nccl4j.jfc");
      Files.writeString(settings, settings());
      start(pids, settings);
    } catch (IOException e) {
      close();
      throw failed("cannot write to " + folder.path(), e);
    } catch (NcclException e) {
      close();
      throw e;
    }
    if (recorded.isEmpty()) {
      close();
      throw new SystemErrorException(
          ErrorId.SYSTEM, String.join("; ", missing.values()), NAME_ALIVE);
    }
  }

  private static TemporaryFolder createFolder() {
    try {
      return TemporaryFolder.create("nccl4j-trace-");
    } catch (IOException e) {
      throw failed("no folder for recordings can be made", e);
    }
  }

  /** A process that ends before {@link #dump} writes its file itself. */
  private synchronized void start(List<Long> pids, Path settings) {
    if (ended) {
      return;
    }
    for (long pid : pids) {
      if (!isRunning(pid)) {
        missing.put(pid, "there is no process " + pid);
      } else if (!AttachCheck.takesCommands(pid)) {
        missing.put(pid, "process " + pid + " has no JVM that can be recorded");
      } else {
        asked.add(pid);
      }
    }
    recorded.addAll(asked);
    Map<Long, String> refusals =
        ask(
            asked,
            pid ->
                List.of(
                    "JFR.start",
                    "name=" + name,
                    "settings=" + quoted(settings),
                    "dumponexit=true",
                    "filename=" + quoted(file(pid))));
    recorded.removeAll(refusals.keySet());
    missing.putAll(refusals);
  }

  /** A value of a diagnostic command, which blanks would end otherwise. */
  private static String quoted(Path path) {
    return "\"" + path + "\"";
  }

  private Path file(long pid) {
    return folder.path().resolve("nccl4j-" + pid + ".jfr");
  }

  private static String settings() {
    StringBuilder text = new StringBuilder();
    text.append("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<configuration version=\"2.0\">\n");
    for (String event : EVENTS) {
      text.append("<event name=\"org.nccl4j.")
          .append(event)
          .append("\"><setting name=\"enabled\">true</setting></event>\n");
    }
    return text.append("</configuration>\n").toString();
  }

  /** Writes what was recorded so far, of the processes that give it. */
  Map<Long, Path> dump() {
    Map<Long, Path> files = new LinkedHashMap<>();
    Map<Long, String> problems = new LinkedHashMap<>();
    List<Long> running = recorded.stream().filter(LiveRecordings::isRunning).toList();
    for (long pid : List.copyOf(recorded)) {
      if (!running.contains(pid)) {
        recorded.remove(pid);
        checkWritten(pid).ifPresent(problem -> problems.put(pid, problem));
      }
      files.put(pid, file(pid));
    }
    problems.putAll(
        ask(running, pid -> List.of("JFR.dump", "name=" + name, "filename=" + quoted(file(pid)))));
    files.keySet().removeAll(problems.keySet());
    missing.putAll(problems);
    return files;
  }

  /** Problems of the processes that gave no recording, by process. */
  Map<Long, String> missing() {
    return missing;
  }

  private static boolean isRunning(long pid) {
    return ProcessHandle.of(pid).map(ProcessHandle::isAlive).orElse(false);
  }

  /** A process that is killed writes nothing. */
  private Optional<String> checkWritten(long pid) {
    try {
      if (Files.exists(file(pid)) && Files.size(file(pid)) > 0) {
        return Optional.empty();
      }
    } catch (IOException e) {
      throw failed("cannot read from " + folder.path(), e);
    }
    return Optional.of("process %d has ended, and has not written its recording".formatted(pid));
  }

  /**
   * Asks all processes at once: one that does not answer takes no other's time.
   *
   * @return the problems of those that refuse
   */
  private Map<Long, String> ask(List<Long> pids, Function<Long, List<String>> command) {
    Map<Long, Future<Optional<String>>> answers = new LinkedHashMap<>();
    ExecutorService threads =
        Executors.newFixedThreadPool(Math.max(1, Math.min(pids.size(), MOST_ASKED)));
    try {
      for (long pid : pids) {
        answers.put(pid, threads.submit(() -> ask(pid, command.apply(pid))));
      }
      Map<Long, String> refusals = new LinkedHashMap<>();
      for (Map.Entry<Long, Future<Optional<String>>> each : answers.entrySet()) {
        each.getValue().get().ifPresent(refusal -> refusals.put(each.getKey(), refusal));
      }
      return refusals;
    } catch (ExecutionException e) {
      throw failed("cannot run " + jcmd, e.getCause());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new SystemErrorException(
          ErrorId.SYSTEM,
          "the thread that records was interrupted",
          "do not interrupt it, or pass fewer seconds",
          e);
    } finally {
      threads.shutdownNow();
    }
  }

  /** Returns the reason why a process does not do what jcmd asks of it, if it does not. */
  private Optional<String> ask(long pid, List<String> command)
      throws IOException, InterruptedException {
    List<String> words = new ArrayList<>(List.of(jcmd.toString(), Long.toString(pid)));
    words.addAll(command);
    try {
      Tool.Answer answer = Tool.run(patience, words);
      boolean refused = answer.status() != 0 || answer.text().contains("Could not");
      return refused
          ? Optional.of(refusal(pid, command, reason(answer.text().strip())))
          : Optional.empty();
    } catch (TimeoutException e) {
      return Optional.of(
          refusal(pid, command, "no answer in %d s".formatted(patience.toSeconds())));
    }
  }

  /**
   * The last line of what jcmd says that is not one of a stack trace, without an exception's class.
   */
  static String reason(String text) {
    return text.lines()
        .filter(line -> !line.isBlank() && !Character.isWhitespace(line.charAt(0)))
        .reduce((first, last) -> last)
        .map(line -> EXCEPTION.matcher(line).replaceFirst(""))
        .orElse("no reason is given");
  }

  private static String refusal(long pid, List<String> command, String reason) {
    return "process %d refuses %s: %s".formatted(pid, command.get(0), reason);
  }

  private static NcclException failed(String what, Throwable e) {
    return new SystemErrorException(
        ErrorId.SYSTEM,
        what + ": " + (e instanceof IOException io ? IoErrorText.of(io) : e.toString()),
        "set java.io.tmpdir to a writable folder",
        e);
  }

  /** Waits for some time, or until the last process has ended. */
  void await(double seconds) {
    long end = System.nanoTime() + (long) (seconds * 1e9);
    for (long left = end - System.nanoTime(); left > 0; left = end - System.nanoTime()) {
      if (recorded.stream().noneMatch(LiveRecordings::isRunning)) {
        return;
      }
      Patience.sleep(Math.min(left, LOOK_NANOS));
    }
  }

  @Override
  public void close() {
    folder.close();
  }

  private synchronized void stop() {
    ended = true;
    try {
      // One that refuses ends meanwhile, and its recording with it, or records nothing.
      ask(
          asked.stream().filter(LiveRecordings::isRunning).toList(),
          pid -> List.of("JFR.stop", "name=" + name));
    } catch (NcclException e) {
      return; // as one that refuses
    }
  }
}
