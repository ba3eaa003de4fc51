package org.nccl4j.it.trace;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.Patience;
import org.nccl4j.device.SystemErrorException;

/** Recordings of running processes, made by the JDK's {@code jcmd}; closing it ends all of them. */
final class LiveRecordings implements AutoCloseable {
  private static final String NAME = "nccl4j-trace";
  private static final long PATIENCE_SECONDS = 30;
  private static final List<String> EVENTS =
      List.of("Operation", "ProxyStep", "InitPhase", "Failure", "Stall");

  private final Path jcmd;
  private final Path directory;
  private final List<Long> recorded = new ArrayList<>();

  /**
   * Begins to record.
   *
   * @param directory for the files
   * @throws SystemErrorException if a process cannot be recorded; then none is
   */
  LiveRecordings(List<Long> pids, Path directory) {
    this.directory = directory;
    this.jcmd = Path.of(System.getProperty("java.home"), "bin", "jcmd");
    if (!Files.isExecutable(jcmd)) {
      throw new SystemErrorException(
          ErrorId.SYSTEM,
          "this Java has no jcmd (%s), which starts recordings of other processes".formatted(jcmd),
          "run ./nccl with a JDK, or start the program with -XX:StartFlightRecording and pass its"
              + " .jfr file");
    }
    try {
      Path settings = directory.resolve("nccl4j.jfc");
      Files.writeString(settings, settings());
      for (long pid : pids) {
        ask(pid, "JFR.start", "name=" + NAME, "settings=" + settings);
        recorded.add(pid);
      }
    } catch (IOException e) {
      throw failed("cannot write to " + directory, e);
    } catch (NcclException e) {
      close();
      throw e;
    }
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

  /** Writes what was recorded so far; a process that has ended meanwhile is left out. */
  List<Path> dump() {
    Map<Long, Path> files = new LinkedHashMap<>();
    for (long pid : List.copyOf(recorded)) {
      Path file = directory.resolve("nccl4j-" + pid + ".jfr");
      if (ProcessHandle.of(pid).isPresent()) {
        ask(pid, "JFR.dump", "name=" + NAME, "filename=" + file);
        files.put(pid, file);
      } else {
        recorded.remove(pid);
      }
    }
    return List.copyOf(files.values());
  }

  private void ask(long pid, String... command) {
    List<String> words = new ArrayList<>(List.of(jcmd.toString(), Long.toString(pid)));
    words.addAll(List.of(command));
    try {
      Path said = Files.createTempFile(directory, "jcmd", ".txt");
      Process process =
          new ProcessBuilder(words).redirectErrorStream(true).redirectOutput(said.toFile()).start();
      if (!process.waitFor(PATIENCE_SECONDS, TimeUnit.SECONDS)) {
        process.destroyForcibly();
        throw refused(pid, command[0], "no answer in %d s".formatted(PATIENCE_SECONDS));
      }
      String text = Files.readString(said, StandardCharsets.UTF_8).strip();
      if (process.exitValue() != 0 || text.contains("Could not")) {
        throw refused(pid, command[0], reason(text));
      }
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

  /** The last line of what jcmd says that is not one of a stack trace. */
  private static String reason(String text) {
    return text.lines()
        .filter(line -> !line.isBlank() && !Character.isWhitespace(line.charAt(0)))
        .reduce((first, last) -> last)
        .orElse("no reason is given");
  }

  private static NcclException refused(long pid, String command, String reason) {
    return new SystemErrorException(
        ErrorId.SYSTEM,
        "process %d refuses %s: %s".formatted(pid, command, reason),
        "name Java processes of this host, user and container that run");
  }

  private static NcclException failed(String what, IOException e) {
    return new SystemErrorException(
        ErrorId.SYSTEM, what + ": " + e.getMessage(), "set java.io.tmpdir to a writable folder", e);
  }

  /** Waits while the processes run. */
  void await(double seconds) {
    long end = System.nanoTime() + (long) (seconds * 1e9);
    for (long left = end - System.nanoTime(); left > 0; left = end - System.nanoTime()) {
      Patience.sleep(left);
    }
  }

  @Override
  public void close() {
    for (long pid : recorded) {
      if (ProcessHandle.of(pid).isPresent()) {
        try {
          ask(pid, "JFR.stop", "name=" + NAME);
        } catch (NcclException e) {
          continue; // it ends meanwhile, and its recording with it
        }
      }
    }
    recorded.clear();
  }
}
