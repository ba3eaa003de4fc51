package org.nccl4j.it.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.os.OtherProcess;
import org.nccl4j.device.support.Patience;
import org.nccl4j.it.api.ChaosRank;
import org.nccl4j.it.run.ClosedWriter;

@Timeout(600)
final class RunTest {
  private final StringWriter out = new StringWriter();
  private final StringWriter err = new StringWriter();

  private int run(int ranks, String script) {
    return Main.run(
        new PrintWriter(out),
        new PrintWriter(err),
        "run",
        "-n",
        Integer.toString(ranks),
        "--",
        "sh",
        "-c",
        script);
  }

  @Test
  void everyRankKnowsWhoItIs() {
    String script =
        "echo $NCCL4J_RANK of $NCCL4J_NRANKS, $RANK of $WORLD_SIZE, $LOCAL_RANK, $MASTER_ADDR";
    assertEquals(0, run(3, script), err::toString);
    assertEquals(
        new TreeSet<>(
            Set.of(
                "[0] 0 of 3, 0 of 3, 0, 127.0.0.1",
                "[1] 1 of 3, 1 of 3, 1, 127.0.0.1",
                "[2] 2 of 3, 2 of 3, 2, 127.0.0.1")),
        out.toString().lines().collect(Collectors.toCollection(TreeSet::new)));
  }

  /** They may name files of the program's own. */
  @Test
  void wordsWithAnAtSignAreTheProgramsOwn(@TempDir Path folder) throws IOException {
    Path file = Files.writeString(folder.resolve("words"), "from the file");
    String word = "@" + file;
    int status =
        Main.run(
            new PrintWriter(out),
            new PrintWriter(err),
            "run",
            "-n",
            "1",
            "--",
            "echo",
            word,
            "@@x");
    assertEquals(0, status, err::toString);
    assertEquals("[0] " + word + " @@x", out.toString().strip());
  }

  /** As after "| head". */
  @Test
  void theCommandEndsWhenNobodyReadsItsOutput() {
    String script = "echo x; exec sleep 600";
    PrintWriter to = new PrintWriter(new ClosedWriter());
    assertEquals(
        141, Main.run(to, new PrintWriter(err), "run", "-n", "2", "--", "sh", "-c", script));
    assertEquals("", err.toString());
  }

  @Test
  void optionsAfterTheProgramAreItsOwn() {
    assertEquals(
        0,
        Main.run(
            new PrintWriter(out), new PrintWriter(err), "run", "-n", "1", "echo", "-n", "--", "-l"),
        err::toString);
    assertEquals("[0] -- -l", out.toString().strip());
  }

  @Test
  void ranksShareOneId() {
    assertEquals(0, run(2, "echo $NCCL4J_UNIQUE_ID $MASTER_PORT"));
    Set<String> seen =
        out.toString().lines().map(line -> line.substring(4)).collect(Collectors.toSet());
    assertEquals(1, seen.size());
    assertTrue(seen.iterator().next().matches("[0-9a-f]+ [0-9]+"), seen::toString);
  }

  /** The others would sleep for ten minutes, in a child of theirs. */
  @Test
  void aRankThatFailsEndsTheOthers() {
    assertEquals(7, run(3, "test $RANK = 1 || { sleep 600 && echo survived; }; exit 7"));
    assertTrue(err.toString().contains("rank 1 (process "), err::toString);
    assertTrue(err.toString().contains("failed with exit status 7"), err::toString);
    assertTrue(!out.toString().contains("survived"));
  }

  @Test
  void aRankThatIsKilledIsNamed() {
    assertEquals(137, run(2, "test $RANK = 1 && kill -9 $$; sleep 600"));
    assertTrue(err.toString().contains("rank 1 (process "), err::toString);
    assertTrue(err.toString().contains("was ended by signal 9"), err::toString);
  }

  /** Each rank has a child, which does not end with it. */
  @Test
  void ranksEndWhenTheCommandIsKilled() throws Exception {
    endWithTheCommand(2, List.of(), "sleep 300 & echo $$ $!; wait");
  }

  /** A launcher that stays here stands for ssh; the third child is in a session of its own. */
  @Test
  void ranksOnOtherHostsEndWhenTheCommandIsKilled() throws Exception {
    endWithTheCommand(
        4,
        List.of("--hosts", "a,b", "--launcher", "env H={host}"),
        "trap '' TERM; sleep 300 & one=$!; env -i sleep 300 & two=$!;"
            + " setsid sleep 300 & echo $$ $one $two $!; while :; do wait; done");
  }

  private static void endWithTheCommand(int processes, List<String> options, String script)
      throws Exception {
    List<String> words =
        new ArrayList<>(
            List.of(
                ProcessHandle.current().info().command().orElseThrow(),
                "-cp",
                ChaosRank.classPath(),
                Main.class.getName(),
                "run",
                "-n",
                "2"));
    words.addAll(options);
    words.addAll(List.of("--", "sh", "-c", script));
    Process command =
        new ProcessBuilder(words).redirectError(ProcessBuilder.Redirect.DISCARD).start();
    List<ProcessHandle> ranks = new ArrayList<>();
    try (BufferedReader lines = command.inputReader()) {
      for (int rank = 0; rank < 2; rank++) {
        for (String pid : lines.readLine().substring(4).split(" ")) {
          ranks.add(ProcessHandle.of(Long.parseLong(pid)).orElseThrow());
        }
      }
      assertEquals(2 * processes, ranks.size());
      command.destroyForcibly();
      for (ProcessHandle rank : ranks) { // in some containers nobody asks for their status
        BooleanSupplier hasEnded = () -> OtherProcess.hasEnded(rank.pid());
        assertTrue(Patience.until(hasEnded, Duration.ofSeconds(300)), () -> rank + " goes on");
      }
    } finally {
      command.destroyForcibly();
      ranks.forEach(ProcessHandle::destroyForcibly);
    }
  }

  private int onHosts(int ranks, String hosts, String... program) {
    List<String> words = new ArrayList<>(List.of("run", "-n", Integer.toString(ranks)));
    words.addAll(List.of("--hosts", hosts, "--launcher", "env H={host}", "--"));
    words.addAll(List.of(program));
    return Main.run(new PrintWriter(out), new PrintWriter(err), words.toArray(String[]::new));
  }

  @Test
  void theFirstHostIsTheAddressToMeetAt() {
    assertEquals(0, onHosts(1, "me@node7,me@node8", "sh", "-c", "echo $H $MASTER_ADDR"));
    assertEquals("[0] me@node7 node7", out.toString().strip());
  }

  /** All ranks would run on another host than the user thinks. */
  @Test
  void anEmptyHostIsRefused() {
    for (String hosts : List.of("node1,", ",node1", "node1,,node2", ",", "")) {
      err.getBuffer().setLength(0);
      assertEquals(2, onHosts(2, hosts, "true"), hosts);
      assertTrue(err.toString().contains("--hosts " + hosts + " has an empty name"), hosts + err);
    }
    assertEquals(0, onHosts(2, "node1, node2", "sh", "-c", "echo $H"));
    assertTrue(out.toString().contains("] node2\n"), out::toString);
  }

  /** As ssh does where it cannot get there; a program's own 255 is no signal either. */
  @Test
  void aHostThatIsNotReachedIsNamed(@TempDir Path folder) throws IOException {
    Path launcher = folder.resolve("far");
    Files.writeString(launcher, "#!/bin/sh\nexit 255\n");
    assertTrue(launcher.toFile().setExecutable(true));
    int status =
        Main.run(
            new PrintWriter(out),
            new PrintWriter(err),
            "run",
            "-n",
            "1",
            "--hosts",
            "moon",
            "--launcher",
            launcher + " {host}",
            "--",
            "true");
    assertEquals(255, status);
    assertTrue(err.toString().contains("far moon' cannot reach moon"), err::toString);
    assertTrue(err.toString().contains("remedy: "), err::toString);
    assertFalse(err.toString().contains("takes no input"), err::toString);
    err.getBuffer().setLength(0);
    assertEquals(255, run(1, "exit 255"));
    assertTrue(err.toString().contains("failed with exit status 255"), err::toString);
  }

  @Test
  void aHostThatMeasurementsDoNotReachIsNamed(@TempDir Path folder) throws IOException {
    Path launcher = folder.resolve("far");
    Files.writeString(launcher, "#!/bin/sh\necho no such host >&2\nexit 255\n");
    assertTrue(launcher.toFile().setExecutable(true));
    int status =
        Main.run(
            new PrintWriter(out),
            new PrintWriter(err),
            "perf",
            "all_reduce",
            "--device",
            "host",
            "--processes",
            "2",
            "--hosts",
            "moon",
            "--launcher",
            launcher + " {host}");
    assertEquals(1, status);
    assertTrue(err.toString().contains("far moon' cannot reach moon"), err::toString);
    assertTrue(err.toString().contains("no such host"), err::toString);
    assertTrue(err.toString().contains("name another command with --launcher"), err::toString);
  }

  /** This host's memory tells nothing of others'. */
  @Test
  void theMemoryOfOtherHostsIsTheirOwn(@TempDir Path folder) throws IOException {
    Path launcher = folder.resolve("far");
    Files.writeString(launcher, "#!/bin/sh\nexit 255\n");
    assertTrue(launcher.toFile().setExecutable(true));
    String line = "perf all_reduce --device host --processes 2 -b 1024G -e 1024G --hosts moon";
    List<String> words = new ArrayList<>(List.of(line.split(" ")));
    words.addAll(List.of("--launcher", launcher + " {host}"));
    int status = Main.run(new PrintWriter(out), new PrintWriter(err), words.toArray(String[]::new));
    assertEquals(1, status);
    assertTrue(err.toString().contains("far moon' cannot reach moon"), err::toString);
  }

  @Test
  void aProgramThatIsNotExecutable(@TempDir Path folder) throws IOException {
    Path program = Files.writeString(folder.resolve("program"), "#!/bin/sh\n");
    int status =
        Main.run(
            new PrintWriter(out), new PrintWriter(err), "run", "-n", "2", "--", program.toString());
    assertEquals(1, status);
    assertTrue(err.toString().contains("remedy: chmod +x " + program), err::toString);
  }

  @Test
  void errorOutputIsMarkedToo() {
    assertEquals(0, run(1, "echo oops >&2"));
    assertEquals("[0] oops", err.toString().strip());
  }

  @Test
  void aProgramThatDoesNotExist() {
    int status =
        Main.run(
            new PrintWriter(out), new PrintWriter(err), "run", "-n", "2", "--", "/no/such/program");
    assertEquals(1, status);
    assertTrue(err.toString().contains("/no/such/program"), err::toString);
    assertTrue(err.toString().contains("remedy: "), err::toString);
  }
}
