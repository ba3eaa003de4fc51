package org.nccl4j.it.perf;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.it.api.ChaosRank;
import org.nccl4j.it.cli.Main;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/** Measured times of ranks of this process that say they are on several hosts. */
@Timeout(600)
class CostsBetweenHostsTest {
  private static final String COSTS = "NCCL4J_COSTS_FILE";
  private static final CommunicatorConfig PLAIN = CommunicatorConfig.defaults();

  @TempDir Path folder;

  /**
   * Creates ranks that sockets connect.
   *
   * @param hosts a letter for each rank: those with the same are on one host
   */
  static List<Communicator> onHosts(String hosts, CommunicatorConfig config) {
    CommunicatorConfig local =
        config
            .with("NCCL_SOCKET_IFNAME", "lo")
            .with("NCCL_P2P_DISABLE", "1") // else the process's own memory would connect them
            .with("NCCL4J_TIMEOUT", "60");
    UniqueId id = UniqueId.create(local);
    return IntStream.range(0, hosts.length())
        .mapToObj(
            rank ->
                Communicator.initRankAsync(
                    hosts.length(),
                    id,
                    rank,
                    Devices.host(),
                    local.with("NCCL_HOSTID", "host " + hosts.charAt(rank))))
        .toList()
        .stream()
        .map(CompletableFuture::join)
        .toList();
  }

  /** Does something on each rank, on a thread of its own. */
  static void onEach(List<Communicator> ranks, Consumer<Communicator> body) {
    List<CompletableFuture<Void>> threads =
        ranks.stream()
            .map(
                rank ->
                    CompletableFuture.runAsync(
                        () -> body.accept(rank), task -> new Thread(task).start()))
            .toList();
    threads.forEach(CompletableFuture::join);
  }

  static void close(List<Communicator> ranks) {
    onEach(ranks, Communicator::close);
  }

  private CommunicatorConfig with(String... lines) throws IOException {
    Path file = folder.resolve("table");
    List<String> all = new ArrayList<>(List.of("device host"));
    all.addAll(List.of(lines));
    Files.write(file, all);
    return PLAIN.with(COSTS, file.toString());
  }

  private static Set<Algorithm> chosen(List<Communicator> ranks, Operation operation, int count) {
    Set<Algorithm> chosen = new HashSet<>();
    ranks.forEach(
        rank -> chosen.add(rank.chosenAlgorithm(operation, count, DataType.FLOAT32).algorithm()));
    return chosen;
  }

  /** Each rank measures as a process of a job does: none knows the others' clocks. */
  @Test
  void allRanksMeasureOneTableAndChooseByIt() throws Exception {
    List<Communicator> ranks = onHosts("aabb", PLAIN);
    List<CompletableFuture<List<String>>> measuring =
        ranks.stream()
            .map(
                rank ->
                    CompletableFuture.supplyAsync(
                        () -> measured(rank), task -> new Thread(task).start()))
            .toList();
    List<String> lines = measuring.get(0).join();
    for (CompletableFuture<List<String>> other : measuring) {
      assertEquals(lines, other.join());
    }
    for (String way :
        List.of(
            "2x2/Socket AllReduce Ring Simple 256:",
            "2x2/Socket AllReduce Tree Simple 256:",
            "2x2/Socket AllGather OneShot Simple 256:",
            "2x2/Socket AllToAll Pairwise Simple 256:",
            "2x2/Socket AllToAll Rails Simple 256:",
            "2x2/Socket Gather Pairwise Simple 256:")) {
      assertTrue(lines.stream().anyMatch(line -> line.startsWith(way)), way + lines);
    }
    Path file = folder.resolve("measured");
    Files.write(file, lines);
    ranks = onHosts("abab", PLAIN.with(COSTS, file.toString()));
    String text = ranks.get(0).explain(Operation.ALL_REDUCE, 64, DataType.FLOAT32);
    assertTrue(text.contains("costs: measured, " + file), text);
    text = ranks.get(3).explain(Operation.ALL_TO_ALL, 64, DataType.FLOAT32);
    assertTrue(text.contains("us  measured, " + file), text);
    close(ranks);
  }

  @Test
  void ranksOfALauncherMeasureAndTheFirstWrites() throws Exception {
    Path file = folder.resolve("launched");
    String tune =
        String.join(
            " ",
            "NCCL_HOSTID=$RANK NCCL_SOCKET_IFNAME=lo exec",
            ProcessHandle.current().info().command().orElseThrow(),
            "-XX:TieredStopAtLevel=1 -cp",
            ChaosRank.classPath(),
            Main.class.getName(),
            "tune --launched --device host -b 256 -e 256",
            file.toString());
    StringWriter out = new StringWriter();
    StringWriter err = new StringWriter();
    assertEquals(
        0,
        Main.run(
            new PrintWriter(out), new PrintWriter(err), "run", "-n", "2", "--", "sh", "-c", tune),
        () -> out + "" + err);
    List<String> lines = Files.readAllLines(file);
    assertTrue(
        lines.stream().anyMatch(line -> line.startsWith("2x1/Socket AllGather PAT Simple 256:")),
        lines.toString());
    assertTrue(out.toString().contains("[0] 2x1/Socket AllReduce Ring Simple"), out.toString());
    assertFalse(out.toString().contains("[1]"), out.toString());
  }

  /** Windows are possible there, but processes whose clocks differ do not register them. */
  @Test
  void ranksOfOneMachineThatMeasureEachForItselfWriteNoTimesOfWindows() {
    UniqueId id = UniqueId.create(PLAIN);
    List<CompletableFuture<List<String>>> measuring =
        IntStream.range(0, 3)
            .mapToObj(
                rank ->
                    CompletableFuture.supplyAsync(
                        () ->
                            measured(
                                Communicator.initRank(
                                    3,
                                    id,
                                    rank,
                                    Devices.host(),
                                    PLAIN.with("NCCL4J_NVLS_MODE", "emulated"))),
                        task -> new Thread(task).start()))
            .toList();
    List<String> lines = measuring.get(0).join();
    measuring.forEach(CompletableFuture::join);
    assertTrue(lines.stream().anyMatch(line -> line.startsWith("3 AllReduce Ring Simple 256:")));
    assertTrue(
        lines.stream().anyMatch(line -> line.startsWith("3 AllReduce NVLS Simple 256:")),
        lines.toString());
    assertTrue(lines.stream().noneMatch(line -> line.contains(" Direct")), lines.toString());
  }

  private static List<String> measured(Communicator rank) {
    List<String> lines;
    try (AlgorithmTimes times = new AlgorithmTimes(List.of(rank), 1024)) {
      assertTrue(times.noWindows().isPresent());
      lines = new ArrayList<>(times.header());
      times.measure(256, lines::add);
    }
    return lines;
  }

  /** Tables that say the opposite of what is true are believed. */
  @ParameterizedTest
  @CsvSource({
    "aabb, 2x2/Socket, TREE, RAILS",
    "abab, 2x2/Socket, TREE, RAILS",
    "abc, 3x1/Socket, TREE, PAIRWISE"
  })
  void allRanksChooseByTheTimesOfTheirPlacement(
      String hosts, String inTable, Algorithm reduces, Algorithm exchanges) throws IOException {
    List<Communicator> ranks =
        onHosts(
            hosts,
            with(
                inTable + " AllReduce Tree Simple 8:0.001 1073741824:0.002",
                inTable + " AllToAll Pairwise Simple 8:9000000",
                inTable + " AllToAll Rails Simple 8:0.001 1073741824:0.002",
                hosts.length() + " AllReduce OneShot Simple 8:0.0001 1073741824:0.0002"));
    for (int count : new int[] {2, 1000, 1 << 20}) {
      assertEquals(Set.of(reduces), chosen(ranks, Operation.ALL_REDUCE, count));
      assertEquals(Set.of(exchanges), chosen(ranks, Operation.ALL_TO_ALL, count));
    }
    onEach(ranks, CostsBetweenHostsTest::sum);
    onEach(ranks, rank -> assertEquals(inTable, rank.costTableKey()));
    close(ranks);
  }

  private static void sum(Communicator rank) {
    TrialsBetweenHostsTest.call(rank, 1, /* exchange= */ false);
    TrialsBetweenHostsTest.call(rank, 1, /* exchange= */ true);
  }

  /** Their network, hosts or ranks are others, or a table has no name for them. */
  @ParameterizedTest
  @CsvSource({
    "aabb, 4",
    "aabb, 2x2/Plugin",
    "aabb, 4x1/Socket",
    "aabbcc, 2x2/Socket",
    "aab, 2x2/Socket"
  })
  void timesOfOtherPlacementsAreNotUsed(String hosts, String inTable) throws IOException {
    List<Communicator> plain = onHosts(hosts, PLAIN);
    Set<Algorithm> expected = chosen(plain, Operation.ALL_REDUCE, 1);
    close(plain);
    String other = expected.contains(Algorithm.RING) ? "Tree" : "Ring";
    List<Communicator> ranks =
        onHosts(hosts, with(inTable + " AllReduce " + other + " Simple 8:0.0001"));
    assertEquals(expected, chosen(ranks, Operation.ALL_REDUCE, 1));
    close(ranks);
  }

  @Test
  void hostsWithDifferentNumbersOfRanksAreNotMeasured() {
    List<Communicator> ranks = onHosts("aab", PLAIN);
    assertEquals("", ranks.get(0).costTableKey());
    onEach(
        ranks,
        rank -> {
          var error = assertThrows(InvalidUsageException.class, () -> measured(rank));
          assertTrue(error.problem().contains("different numbers of ranks"), error.problem());
        });
  }
}
