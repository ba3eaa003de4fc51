package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import jdk.jfr.Recording;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.it.cli.Main;

/** The timeline that {@code nccl trace} writes of two running processes. */
@Timeout(600)
class TraceTest {
  private static final int RANKS = 2;
  private static final long PATIENCE_NANOS = 300_000_000_000L;

  /** Said where a process is too busy for jcmd. */
  private static final String NO_ANSWER = ": no answer in ";

  @TempDir private Path directory;
  private final List<Process> processes = new ArrayList<>();

  @AfterEach
  void end() {
    processes.forEach(Process::destroyForcibly);
  }

  private static String trace(int status, String... arguments) {
    StringWriter out = new StringWriter();
    assertEquals(status, run(out, arguments), out.toString());
    return out.toString();
  }

  private static int run(StringWriter out, String... arguments) {
    PrintWriter to = new PrintWriter(out, true);
    List<String> command = new ArrayList<>(List.of("trace"));
    command.addAll(List.of(arguments));
    return Main.run(to, to, command.toArray(String[]::new));
  }

  /** The number of a process that has ended. */
  private static String ended() throws Exception {
    Process process = new ProcessBuilder("true").start();
    process.waitFor();
    return Long.toString(process.pid());
  }

  @Test
  void aProcessThatHasEndedIsNamedWithTheReason() throws Exception {
    Path file = directory.resolve("trace.json");
    String said = trace(1, "-o", file.toString(), ended());
    assertTrue(said.contains("there is no process "), said);
    assertFalse(Files.exists(file));
  }

  /** SIGQUIT, by which jcmd wakes a JVM, would end it. */
  @Test
  void aProcessWithoutAJvmIsRefusedAndLives() throws Exception {
    Process process = new ProcessBuilder("sleep", "300").start();
    processes.add(process);
    String pid = Long.toString(process.pid());
    String said = trace(1, "-s", "1", "-o", directory.resolve("trace.json").toString(), pid);
    assertTrue(said.contains("process " + pid + " has no JVM that can be recorded"), said);
    assertTrue(process.isAlive());
  }

  @Test
  void aProcessWithoutOperationsNeedsMoreTime() {
    String self = Long.toString(ProcessHandle.current().pid());
    String file = directory.resolve("trace.json").toString();
    long end = System.nanoTime() + PATIENCE_NANOS;
    String said;
    do {
      said = trace(1, "-s", "0.1", "-o", file, self);
    } while (said.contains(NO_ANSWER) && System.nanoTime() < end);
    assertTrue(said.contains("no operation ended in 0.1 s; record for longer with -s"), said);
  }

  /** Recording takes minutes, which would be lost. */
  @Test
  void aFileThatCannotBeWrittenIsRefusedBeforeProcessesAreRecorded() throws Exception {
    Path file = directory.resolve("missing").resolve("trace.json");
    String said = trace(1, "-o", file.toString(), ended());
    assertTrue(said.contains(file + " cannot be written"), said);
  }

  private void start() throws Exception {
    UniqueId id = UniqueId.create();
    for (int rank = 0; rank < RANKS; rank++) {
      List<String> command = RankJvm.command();
      command.addAll(List.of(HangingRank.class.getName(), id.toString(), Integer.toString(RANKS)));
      command.addAll(
          List.of(Integer.toString(rank), HangingRank.Mistake.STOPPED.name())); // nobody stops it
      processes.add(new ProcessBuilder(command).redirectErrorStream(true).start());
    }
    for (Process process : processes) {
      RankJvm.awaitReady(process);
    }
  }

  /** Before, one process that could not be recorded cost the recordings of all others. */
  @Test
  void theOthersAreWrittenWhereAProcessIsMissing() throws Exception {
    start();
    Path file = directory.resolve("trace.json");
    String ended = ended();
    long end = System.nanoTime() + PATIENCE_NANOS;
    String said;
    do { // as below
      said =
          trace(
              1,
              "-s",
              "1",
              "-o",
              file.toString(),
              Long.toString(processes.get(0).pid()),
              ended,
              Long.toString(processes.get(1).pid()));
    } while (!said.contains("spans of 2 processes") && System.nanoTime() < end);
    assertTrue(said.contains("spans of 2 processes"), said);
    assertTrue(said.contains("missing in the timeline: there is no process " + ended), said);
    assertEquals(2, processes.stream().filter(Process::isAlive).count());
  }

  /** Its operations are not lost, and nobody waits for the rest of the time. */
  @Test
  void processesThatEndWhileTheyAreRecordedEndTheRecording() throws Exception {
    Path file = directory.resolve("trace.json");
    long end = System.nanoTime() + PATIENCE_NANOS;
    StringWriter out;
    int status;
    do {
      List<String> command = RankJvm.command();
      command.addAll(List.of(EndingRank.class.getName(), "5"));
      Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
      processes.add(process);
      RankJvm.awaitReady(process);
      out = new StringWriter();
      status = run(out, "-s", "3600", "-o", file.toString(), Long.toString(process.pid()));
    } while (out.toString().contains(NO_ANSWER) && System.nanoTime() < end);
    assertTrue(out.toString().contains("spans of 1 processes"), out.toString());
    assertEquals(0, status, out.toString());
    assertTrue(Files.readString(file).contains("\"name\":\"all_reduce\""));
  }

  @Test
  void operationsOfBothProcessesByTheirNumbers() throws Exception {
    start();
    Path file = directory.resolve("trace.json");
    long end = System.nanoTime() + PATIENCE_NANOS;
    String said;
    do { // a busy machine may give a process no time to begin its recording, or to call anything
      StringWriter out = new StringWriter();
      run(
          out,
          "-s",
          "1",
          "-o",
          file.toString(),
          Long.toString(processes.get(0).pid()),
          Long.toString(processes.get(1).pid()));
      said = out.toString();
    } while (!said.contains("spans of 2 processes") && System.nanoTime() < end);
    assertTrue(said.contains("spans of 2 processes"), said);
    String json = Files.readString(file);
    for (int rank = 0; rank < RANKS; rank++) {
      assertTrue(json.contains("\"name\":\"process " + processes.get(rank).pid() + " on "), said);
      assertTrue(json.contains("{\"name\":\"training, rank " + rank + "\"}"), said);
    }
    Pattern operation =
        Pattern.compile(
            "\"name\":\"all_reduce\",\"ph\":\"X\",\"pid\":(\\d),[^{]*\"args\":\\{[^}]*\"number\":(\\d+)");
    List<MatchResult> all = operation.matcher(json).results().toList();
    for (String process : List.of("1", "2")) {
      List<Long> numbers =
          all.stream()
              .filter(match -> match.group(1).equals(process))
              .map(match -> Long.valueOf(match.group(2)))
              .toList();
      assertFalse(numbers.isEmpty(), json.substring(0, Math.min(2000, json.length())));
      assertEquals(numbers.stream().sorted().distinct().collect(Collectors.toList()), numbers);
    }
    assertEquals(2, processes.stream().filter(Process::isAlive).count());
  }

  /** The recordings of a process, as jcmd lists them. A busy process may not answer it in time. */
  private static String recordings(Process process) throws Exception {
    String jcmd = Path.of(System.getProperty("java.home"), "bin", "jcmd").toString();
    long end = System.nanoTime() + PATIENCE_NANOS;
    String answer;
    boolean isList;
    do {
      Process asking =
          new ProcessBuilder(jcmd, Long.toString(process.pid()), "JFR.check")
              .redirectErrorStream(true)
              .start();
      answer = new String(asking.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      isList = answer.contains("Recording ") || answer.contains("No available recordings");
    } while (!isList && System.nanoTime() < end);
    assertTrue(isList, answer);
    return answer;
  }

  /** A recording that jcmd was told to start or stop may do so after jcmd's patience. */
  private static void awaitTraces(int expected, Process traced) throws Exception {
    long end = System.nanoTime() + PATIENCE_NANOS;
    String recorded;
    int traces;
    do {
      recorded = recordings(traced);
      traces = recorded.split("name=nccl4j-trace", -1).length - 1;
    } while (traces != expected && System.nanoTime() < end);
    assertEquals(expected, traces, recorded);
  }

  private Process startTrace(Path folder, Process traced) throws Exception {
    List<String> command = RankJvm.command();
    command.add(1, "-Djava.io.tmpdir=" + folder);
    command.addAll(List.of(Main.class.getName(), "trace", "-s", "3600"));
    command.addAll(List.of("-o", folder.resolve("out.json").toString()));
    command.add(Long.toString(traced.pid()));
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    processes.add(process);
    return process;
  }

  private static List<String> traceFiles(Path folder) throws Exception {
    try (Stream<Path> files = Files.list(folder)) {
      return files.map(Path::toString).filter(name -> name.contains("nccl4j-trace")).toList();
    }
  }

  /** As Ctrl-C does. Each of several traces of one process has a recording of its own. */
  @Test
  void aTraceThatIsEndedLeavesNothing() throws Exception {
    start();
    Process traced = processes.get(0);
    Process first = startTrace(Files.createDirectory(directory.resolve("first")), traced);
    Process second = startTrace(Files.createDirectory(directory.resolve("second")), traced);
    awaitTraces(2, traced);
    first.destroy();
    assertEquals(143, first.waitFor());
    awaitTraces(1, traced);
    second.destroy();
    assertEquals(143, second.waitFor());
    awaitTraces(0, traced);
    assertEquals(List.of(), traceFiles(directory.resolve("first")));
    assertEquals(List.of(), traceFiles(directory.resolve("second")));
  }

  /** A recording made within the program, of ranks with proxies. */
  @Test
  void proxiesHaveRows() throws Exception {
    CommunicatorConfig config =
        CommunicatorConfig.defaults().withName("networked").withTransports(List.of("NET"));
    Path recorded = directory.resolve("recorded.jfr");
    try (Recording recording = new Recording()) {
      recording.enable("org.nccl4j.Operation");
      recording.enable("org.nccl4j.ProxyStep");
      recording.start();
      try (Ranks ranks = new Ranks(2, config)) {
        ranks.run(
            (comm, stream) -> {
              try (DeviceMemory data = Ranks.floats(16, i -> 1)) {
                comm.allReduce(data, data, 16, DataType.FLOAT32, RedOp.SUM, stream);
                stream.synchronize();
              }
            });
      }
      recording.stop();
      recording.dump(recorded);
    }
    Path file = directory.resolve("trace.json");
    String said = trace(0, "-o", file.toString(), recorded.toString());
    assertTrue(said.contains("spans of 1 processes"), said);
    String json = Files.readString(file);
    for (String row :
        List.of("networked, rank 1", "rank 0, proxy, send 1", "rank 1, proxy, recv 0")) {
      assertTrue(json.contains("{\"name\":\"" + row + "\"}"), row + " is not in " + json);
    }
  }

  @Test
  void badInputIsNamed() throws Exception {
    String output = directory.resolve("out.json").toString();
    assertTrue(trace(2, "-s", "0").contains("--seconds must be above 0"));
    Path none = Files.writeString(directory.resolve("none.jfr"), "no recording");
    String said = trace(1, "-o", output, none.toString());
    assertTrue(said.contains("none.jfr cannot be read as a recording"), said);
    said = trace(1, "-s", "1", "-o", output, "2147483647");
    assertTrue(said.contains("there is no process 2147483647"), said);
    assertFalse(Files.exists(Path.of(output)));
  }
}
