package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.UniqueId;
import org.nccl4j.it.cli.Main;

/** The timeline that {@code nccl trace --job} writes of a job of three processes. */
@Timeout(600)
class TraceJobTest {
  private static final int RANKS = 3;
  private static final long PATIENCE_NANOS = 300_000_000_000L;
  private static final String WAITS = "{\"name\":\"waits for rank ";
  private static final Pattern OPERATION =
      Pattern.compile(
          "\"name\":\"all_reduce\",\"ph\":\"X\",\"pid\":(\\d),[^{]*\"args\":\\{[^}]*\"number\":(\\d+)");

  private static final Pattern SEND =
      Pattern.compile(
          "\"name\":\"send(, zero copy)?\",\"ph\":\"X\"[^{]*\\{[^}]*\"step\":\\d+,\"bytes\":\\d+");

  @TempDir private Path directory;
  private final List<Process> processes = new ArrayList<>();
  private UniqueId id;

  @AfterEach
  void end() {
    processes.forEach(Process::destroyForcibly);
  }

  /** An exit status, and what was printed. */
  private record Said(int status, String text) {}

  private Said trace(String... options) {
    StringWriter out = new StringWriter();
    PrintWriter to = new PrintWriter(out, true);
    List<String> command = new ArrayList<>(List.of("trace", "-s", "1", "-o", file().toString()));
    command.addAll(List.of(options));
    int status = Main.run(to, to, command.toArray(String[]::new));
    return new Said(status, out.toString());
  }

  private Path file() {
    return directory.resolve("trace.json");
  }

  /** Traces until this is said: on a busy machine a rank may answer late, or call nothing. */
  private Said traceUntil(int status, String told) {
    long end = System.nanoTime() + PATIENCE_NANOS;
    Said said;
    do {
      said = trace("--job", id.toString());
    } while (!(said.status == status && said.text.contains(told)) && System.nanoTime() < end);
    assertEquals(status, said.status, said.text);
    assertTrue(said.text.contains(told), said.text);
    return said;
  }

  private void start(HangingRank.Mistake mistake) throws Exception {
    id = UniqueId.create(CommunicatorConfig.defaults().with("NCCL4J_JOB_STATE", "1"));
    for (int rank = 0; rank < RANKS; rank++) {
      List<String> command = RankJvm.command();
      command.addAll(List.of(HangingRank.class.getName(), id.toString(), Integer.toString(RANKS)));
      command.addAll(List.of(Integer.toString(rank), mistake.name()));
      processes.add(new ProcessBuilder(command).redirectErrorStream(true).start());
    }
    for (Process process : processes) {
      RankJvm.awaitReady(process);
    }
  }

  private long pid(int rank) {
    return processes.get(rank).pid();
  }

  /** First all ranks; then one is stopped, and the others have the rest of their calls. */
  @Test
  void operationsOfAllRanksAndOneThatIsSilent() throws Exception {
    start(HangingRank.Mistake.STOPPED);
    traceUntil(0, "spans of " + RANKS + " processes");
    String json = Files.readString(file());
    List<MatchResult> all = OPERATION.matcher(json).results().toList();
    for (int rank = 0; rank < RANKS; rank++) {
      assertTrue(json.contains("\"name\":\"process " + pid(rank) + " on "), json);
      assertTrue(json.contains("{\"name\":\"training, rank " + rank + "\"}"), json);
      String process = Integer.toString(rank + 1);
      List<Long> numbers =
          all.stream()
              .filter(match -> match.group(1).equals(process))
              .map(match -> Long.valueOf(match.group(2)))
              .toList();
      assertFalse(numbers.isEmpty(), json.substring(0, Math.min(2000, json.length())));
      assertEquals(numbers.stream().sorted().distinct().toList(), numbers);
    }
    assertEquals(0, new ProcessBuilder("kill", "-STOP", Long.toString(pid(1))).start().waitFor());
    long end = System.nanoTime() + PATIENCE_NANOS;
    Said said;
    do { // the others wait for some time before they say so
      said = traceUntil(1, "missing in the timeline: rank 1 (process " + pid(1) + " on ");
      json = Files.readString(file());
    } while (!json.contains(WAITS) && System.nanoTime() < end);
    assertTrue(json.contains(WAITS), json.substring(0, Math.min(2000, json.length())));
    assertTrue(said.text.contains(") gave no answer"), said.text);
    assertEquals(RANKS, processes.stream().filter(Process::isAlive).count());
  }

  /** Of ranks on hosts of their own; creations are those of splits. */
  @Test
  void creationsAndProxiesHaveRows() throws Exception {
    start(HangingRank.Mistake.SPLITTING);
    String json;
    long end = System.nanoTime() + PATIENCE_NANOS;
    do { // a recording may be so short for a busy machine that it lacks some
      traceUntil(0, "spans of " + RANKS + " processes");
      json = Files.readString(file());
    } while (!hasAllRows(json) && System.nanoTime() < end);
    assertTrue(hasAllRows(json), json.substring(0, Math.min(4000, json.length())));
  }

  /**
   * Of creations of splits, whose names begin with their parent's, with a step of them, and of both
   * ends of proxies, with a message.
   */
  private static boolean hasAllRows(String json) {
    for (int rank = 0; rank < RANKS; rank++) {
      int next = (rank + 1) % RANKS;
      Pattern creation =
          Pattern.compile("\\{\"name\":\"training[^\"]*, rank %d, creation".formatted(rank));
      Pattern proxies =
          Pattern.compile(
              "\\{\"name\":\"training, rank %d, proxy, (send|recv) %d\"".formatted(rank, next));
      if (!creation.matcher(json).find() || !proxies.matcher(json).find()) {
        return false;
      }
    }
    return json.contains("\"name\":\"graphs\",\"ph\":\"X\"") && SEND.matcher(json).find();
  }

  @Test
  void badInputIsNamed() {
    Said both = trace("--job", "x", "4711");
    assertEquals(2, both.status);
    assertTrue(both.text.contains("--job must be used without processes and files"), both.text);
    Said none = trace("--job", "x");
    assertEquals(1, none.status);
    assertFalse(Files.exists(file()));
    id = UniqueId.create();
    Said nobody = trace("--job", id.toString());
    assertEquals(1, nobody.status);
    assertTrue(nobody.text.contains("not all of its ranks have come"), nobody.text);
  }
}
