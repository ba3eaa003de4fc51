package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.zip.GZIPInputStream;
import java.util.zip.GZIPOutputStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.nccl4j.api.UniqueId;
import org.nccl4j.it.api.HangingRank.Mistake;
import org.nccl4j.it.cli.Main;

/**
 * The output of {@code nccl diagnose} on hanging programs of three processes: on live processes,
 * and on recorder files in the test's resources, which -Dnccl4j.record=DIRECTORY writes.
 */
@Timeout(600)
class DiagnoseTest {
  private static final int RANKS = 3;
  private static final String PROCESSES = " \\(process(es)? [0-9, ]+\\)";
  private static final long PATIENCE_NANOS = 300_000_000_000L;

  @TempDir private Path directory;
  private final List<Process> processes = new ArrayList<>();

  @AfterEach
  void end() {
    processes.forEach(Process::destroyForcibly);
  }

  private static String expected(Mistake mistake) {
    return switch (mistake) {
      case STOPPED ->
          "communicator training: rank 1 is stopped \\(process \\d+ on \\S+\\)"
              + "; rank \\d waits for rank \\d in operation .*";
      case SKIPPED ->
          "communicator training: rank 1 never called collective 4 \\(all_reduce of 200000 float"
              + " \\(sum\\)\\); the last of rank 1 was operation 3, all_reduce of 200000 float"
              + " \\(sum\\), which has ended; rank 0 waits for rank \\d in operation 4, .*";
      case COUNT ->
          "communicator training: the ranks disagree on collective 4: rank 1 called all_reduce of"
              + " 100000 float \\(sum\\), ranks 0, 2 called all_reduce of 200000 float \\(sum\\);"
              + " (rank \\d waits for rank \\d in operation 4, .*|no operation is in progress)";
      case RECEIVE ->
          "communicator training: rank 1 never called collective 4 \\(all_reduce of 200000 float"
              + " \\(sum\\)\\); the last of rank 1 was operation 4, recv of 7 double from rank 2,"
              + " which has not ended; .*rank 1 waits for rank 2 in operation 4, recv of 7 double"
              + " from rank 2, .*";
      case SPLITTING -> throw new AssertionError("it does not hang");
    };
  }

  /** Ranks whose calls differ do not hang: see {@link CallsDifferTest}. */
  @ParameterizedTest
  @EnumSource(
      mode = EnumSource.Mode.EXCLUDE,
      names = {"COUNT", "RECEIVE", "SPLITTING"})
  void aProgramThatHangs(Mistake mistake) throws Exception {
    start(mistake);
    if (mistake == Mistake.STOPPED) {
      String pid = Long.toString(processes.get(1).pid());
      assertEquals(0, new ProcessBuilder("kill", "-STOP", pid).start().waitFor());
    }
    List<String> command = new ArrayList<>(List.of("diagnose"));
    processes.forEach(process -> command.add(Long.toString(process.pid())));
    long end = System.nanoTime() + PATIENCE_NANOS;
    String said;
    do {
      said = diagnose(command);
    } while (!said.matches(expected(mistake) + PROCESSES) && System.nanoTime() < end);
    assertTrue(said.matches(expected(mistake) + PROCESSES), said);
    record(mistake, command);
  }

  private void start(Mistake mistake) throws Exception {
    UniqueId id = UniqueId.create();
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

  private void record(Mistake mistake, List<String> command) throws IOException {
    String target = System.getProperty("nccl4j.record");
    if (target != null && mistake != Mistake.STOPPED) {
      List<String> saving = new ArrayList<>(command);
      saving.addAll(List.of("--save", directory.toString()));
      diagnose(saving);
      for (int rank = 0; rank < RANKS; rank++) {
        Path file = directory.resolve("nccl4j-" + processes.get(rank).pid() + ".flight");
        Path zipped = Path.of(target, resource(mistake.name(), rank));
        try (GZIPOutputStream out = new GZIPOutputStream(Files.newOutputStream(zipped))) {
          Files.copy(file, out);
        }
      }
    }
  }

  private static String resource(String mistake, int rank) {
    return "%s-%d.flight.gz".formatted(mistake.toLowerCase(Locale.ROOT), rank);
  }

  /** The files of all ranks say the same; those of some say what they can. */
  @ParameterizedTest
  @CsvSource({
    "SKIPPED, 012, ''",
    "COUNT, 012, ''",
    "RECEIVE, 012, ''",
    "SKIPPED, 01, 'no data of rank 2'",
    "SKIPPED, 02, 'no data of rank 1, whose processes have ended'",
    "COUNT, 02, 'no data of rank 1, whose processes have ended'",
  })
  void recordersOfAProgramThatHung(String mistake, String ranks, String missing) throws Exception {
    List<String> command = new ArrayList<>(List.of("diagnose"));
    for (char rank : ranks.toCharArray()) {
      Path file = directory.resolve(rank + ".flight");
      String name = "diagnose/" + resource(mistake, rank - '0');
      try (InputStream in = DiagnoseTest.class.getResourceAsStream(name);
          GZIPInputStream unzipped = new GZIPInputStream(in)) {
        Files.copy(unzipped, file);
      }
      command.add(file.toString());
    }
    String said = diagnose(command);
    assertTrue(said.contains(missing), said);
    boolean knowsTheCulprit = ranks.contains("1");
    assertEquals(
        knowsTheCulprit, said.matches(expected(Mistake.valueOf(mistake)) + PROCESSES), said);
    assertTrue(said.contains(mistake.equals("COUNT") ? "in progress" : "waits for rank"), said);
  }

  private static String diagnose(List<String> command) {
    StringWriter out = new StringWriter();
    PrintWriter to = new PrintWriter(out, true);
    Main.run(to, to, command.toArray(String[]::new));
    return out.toString().strip();
  }
}
