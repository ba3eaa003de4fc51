package org.nccl4j.it.trace;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeoutException;
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
  private static final long LOOK_NANOS = 50_000_000;
  private static final Pattern EXCEPTION = Pattern.compile("^[\\w.$]+(Exception|Error): ");
  private static final List<String> EVENTS =
      List.of("Operation", "ProxyStep", "InitPhase", "Failure", "Stall");

  private final Path jcmd;
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
    this.jcmd = Path.of(System.getProperty("java.home"), "bin", "jcmd");
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
      for (long pid : pids) {
        start(pid, settings);
      }
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
  private synchronized void start(long pid, Path settings) {
    if (!isRunning(pid)) {
      missing.put(pid, "there is no process " + pid);
      return;
    }
    if (!AttachCheck.takesCommands(pid)) {
      missing.put(pid, "process " + pid + " has no JVM that can be recorded");
      return;
    }
    if (ended) {
      return;
    }
    asked.add(pid);
    try {
      ask(
          pid,
          "JFR.start",
          "name=" + name,
          "settings=" + settings,
          "dumponexit=true",
          "filename=" + file(pid));
      recorded.add(pid);
    } catch (RefusedException e) {
      missing.put(pid, e.getMessage());
    }
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
    for (long pid : List.copyOf(recorded)) {
      try {
        if (isRunning(pid)) {
          ask(pid, "JFR.dump", "name=" + name, "filename=" + file(pid));
        } else {
          recorded.remove(pid);
          checkWritten(pid);
        }
        files.put(pid, file(pid));
      } catch (RefusedException e) {
        missing.put(pid, e.getMessage());
      }
    }
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
  private void checkWritten(long pid) throws RefusedException {
    try {
      if (Files.exists(file(pid)) && Files.size(file(pid)) > 0) {
        return;
      }
    } catch (IOException e) {
      throw failed("cannot read from " + folder.path(), e);
    }
    throw new RefusedException(
        "process %d has ended, and has not written its recording".formatted(pid));
  }

  /** A process does not do what jcmd asks of it. */
  private static final class RefusedException extends Exception {
    private static final long serialVersionUID = 1L;

    RefusedException(String message) {
      super(message);
    }
  }

  private void ask(long pid, String... command) throws RefusedException {
    List<String> words = new ArrayList<>(List.of(jcmd.toString(), Long.toString(pid)));
    words.addAll(List.of(command));
    try {
      Tool.Answer answer = Tool.run(PATIENCE, words);
      if (answer.status() != 0 || answer.text().contains("Could not")) {
        throw refused(pid, command[0], reason(answer.text().strip()));
      }
    } catch (TimeoutException e) {
      throw refused(pid, command[0], e.getMessage());
    } catch (IOException e) {
      throw failed("cannot run " + jcmd, e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new SystemErrorException(
          ErrorId.SYSTEM,
          "the thread that records was interrupted",
          "do not interrupt it, or pass fewer seconds",
          e);
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

  private static RefusedException refused(long pid, String command, String reason) {
    return new RefusedException("process %d refuses %s: %s".formatted(pid, command, reason));
  }

  private static NcclException failed(String what, IOException e) {
    return new SystemErrorException(
        ErrorId.SYSTEM,
        what + ": " + IoErrorText.of(e),
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
    for (long pid : asked) {
      if (isRunning(pid)) {
        try {
          ask(pid, "JFR.stop", "name=" + name);
        } catch (RefusedException | NcclException e) {
          continue; // it ends meanwhile, and its recording with it, or records nothing
        }
      }
    }
  }
}
