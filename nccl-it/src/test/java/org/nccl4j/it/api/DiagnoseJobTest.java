package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.UniqueId;
import org.nccl4j.it.api.HangingRank.Mistake;
import org.nccl4j.it.cli.Main;

/** The output of {@code nccl diagnose --job} on jobs of four processes. */
@Timeout(600)
class DiagnoseJobTest {
  private static final int RANKS = 4;
  private static final long PATIENCE_NANOS = 300_000_000_000L;

  private final List<Process> processes = new ArrayList<>();
  private UniqueId id;

  @AfterEach
  void end() {
    processes.forEach(Process::destroyForcibly);
  }

  /** An exit status, and what was printed. */
  private record Said(int status, String text) {
    boolean has(int wanted, String... words) {
      return status == wanted && Stream.of(words).allMatch(text::contains);
    }
  }

  private Said diagnose(String... options) {
    StringWriter out = new StringWriter();
    PrintWriter to = new PrintWriter(out, true);
    List<String> command = new ArrayList<>(List.of("diagnose", "--job", id.toString()));
    command.addAll(List.of(options));
    int status = Main.run(to, to, command.toArray(String[]::new));
    return new Said(status, out.toString().strip());
  }

  /** Asks until the answer has this status and all these words: a rank may answer late. */
  private void assertDiagnosed(int status, String... words) {
    long end = System.nanoTime() + PATIENCE_NANOS;
    Said said;
    do {
      said = diagnose();
    } while (!said.has(status, words) && System.nanoTime() < end);
    assertTrue(said.has(status, words), said + " instead of " + List.of(words));
  }

  private void start(Mistake mistake) throws Exception {
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

  @Test
  void aRankThatDoesNotCallIsNamed() throws Exception {
    start(Mistake.SKIPPED);
    assertDiagnosed(
        1,
        "job of 4 ranks: 4 answered, in 4 processes on 1 host\n",
        "behind: rank 1 by 1 collective (process " + pid(1),
        "3 of 4 ranks that answered are in operation 4, all_reduce",
        "rank 1 never called collective 4");
    Said json = diagnose("--json");
    assertEquals(1, json.status(), json.text());
    assertTrue(json.text().contains("\"healthy\":false"), json.text());
    try (JsonParser parser = new JsonFactory().createParser(json.text())) {
      while (parser.nextToken() != null) {
        parser.getText();
      }
    }
  }

  @Test
  void aStoppedRankIsSilentAndOneThatRunsIsNot() throws Exception {
    start(Mistake.STOPPED);
    assertDiagnosed(0, "no rank is silent, behind or has failed");
    assertEquals(0, new ProcessBuilder("kill", "-STOP", pid(1)).start().waitFor());
    assertDiagnosed(1, "silent: rank 1 (process " + pid(1));
  }

  private String pid(int rank) {
    return Long.toString(processes.get(rank).pid());
  }
}
