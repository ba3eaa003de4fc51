package org.nccl4j.it.perf;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.plan.trial.TrialFile;
import org.nccl4j.api.plan.trial.TrialTimes;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.support.Patience;
import org.nccl4j.it.cli.Main;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/** Ranks of this process that say they are on several hosts try algorithms in their calls. */
@Timeout(600)
class TrialsBetweenHostsTest {
  private static final String COSTS = "NCCL4J_COSTS_FILE";
  private static final int COUNT = 64;

  /** Enough for some trials where nothing else runs. */
  private static final int CALLS = 5000;

  private static final int MOST_CALLS = 80_000;

  /** Calls before a trial, whose algorithm is predicted as fast, may take twice as long. */
  private static final int LEAST_CALLS = 200;

  @TempDir Path folder;

  /** Both ways as fast, as predicted, and so a short period. */
  private CommunicatorConfig trying(Path trials) throws IOException {
    Path file = folder.resolve("table");
    Files.write(
        file,
        List.of(
            "device host",
            "2x2/Socket AllReduce Ring Simple 8:20 1073741824:40",
            "2x2/Socket AllReduce Tree Simple 8:20.5 1073741824:41",
            "2x2/Socket AllToAll Pairwise Simple 8:20 1073741824:40",
            "2x2/Socket AllToAll Rails Simple 8:20.5 1073741824:41"));
    return CommunicatorConfig.defaults()
        .with(COSTS, file.toString())
        .with("NCCL4J_TRIALS", trials.toString());
  }

  /** The buffers of a rank, and calls that check every result. */
  private static final class Calls implements AutoCloseable {
    private final Communicator rank;
    private final ByteBuffer send;
    private final ByteBuffer recv;
    private final DeviceMemory from;
    private final DeviceMemory to;
    private final DeviceStream stream;

    Calls(Communicator rank) {
      this.rank = rank;
      int bytes = 4 * COUNT * rank.nRanks();
      send = ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder());
      recv = ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder());
      from = Devices.wrap(send);
      to = Devices.wrap(recv);
      stream = rank.device().createStream();
    }

    void call(int call, boolean exchange) {
      int n = rank.nRanks();
      for (int i = 0; i < COUNT * n; i++) {
        send.putInt(4 * i, call + 1000 * rank.rank() + i);
      }
      if (exchange) {
        rank.allToAll(from, to, COUNT, DataType.INT32, stream);
      } else {
        rank.allReduce(from, to, COUNT, DataType.INT32, RedOp.SUM, stream);
      }
      stream.synchronize();
      for (int i = 0; i < COUNT * (exchange ? n : 1); i++) {
        int of = i / COUNT;
        int expected =
            exchange
                ? call + 1000 * of + rank.rank() * COUNT + i % COUNT
                : n * (call + i) + 1000 * n * (n - 1) / 2;
        assertEquals(expected, recv.getInt(4 * i));
      }
    }

    @Override
    public void close() {
      stream.close();
    }
  }

  /** Calls sums or all-to-alls, and checks every result. */
  static void call(Communicator rank, int calls, boolean exchange) {
    try (Calls of = new Calls(rank)) {
      for (int call = 0; call < calls; call++) {
        of.call(call, exchange);
      }
    }
  }

  private static Set<TrialTimes.Way> tried(List<TrialTimes> files) {
    Set<TrialTimes.Way> tried = new HashSet<>();
    files.forEach(
        file -> file.samples().stream().filter(s -> !s.chosen()).forEach(s -> tried.add(s.way())));
    return tried;
  }

  private static boolean isEnough(List<TrialTimes> files) {
    try {
      return !tried(files).isEmpty() && !LearnedTable.of(files).report().isEmpty();
    } catch (InvalidArgumentException e) {
      return false;
    }
  }

  /** Again, with more calls, where trials took so long that the next ones wait. */
  private Path tryAlgorithms(boolean exchange) throws IOException {
    int calls = CALLS;
    Path trials;
    do {
      trials = folder.resolve("trials" + calls);
      int some = calls;
      List<Communicator> ranks = CostsBetweenHostsTest.onHosts("aabb", trying(trials));
      CostsBetweenHostsTest.onEach(ranks, rank -> call(rank, some, exchange));
      CostsBetweenHostsTest.close(ranks);
      calls *= 4;
    } while (calls <= MOST_CALLS && !isEnough(TrialFile.readAll(trials)));
    return trials;
  }

  /** Nobody can share a file, and so the ranks vote. */
  @ParameterizedTest
  @CsvSource({"false, AllReduce", "true, AllToAll"})
  void ranksTryTheSameAlgorithmsInTheSameCalls(boolean exchange, String operation)
      throws IOException {
    Path trials = tryAlgorithms(exchange);
    List<TrialTimes> files = TrialFile.readAll(trials);
    assertEquals(4, files.size());
    for (TrialTimes file : files) {
      assertEquals("2x2/Socket", file.ranks());
      long before = 0;
      for (TrialTimes.Sample sample : file.samples()) {
        assertEquals(operation, sample.way().operation().label());
        if (!sample.chosen()) {
          assertTrue(sample.call() - before >= LEAST_CALLS, file.toString());
          before = sample.call();
        }
      }
    }
    assertFalse(tried(files).isEmpty());
    assertTrue(TrialsTest.assertSameWays(files) > 0, "no call was measured by all ranks");
    if (exchange) {
      Set<Algorithm> both = new HashSet<>();
      files.forEach(file -> file.samples().forEach(s -> both.add(s.way().algorithm())));
      assertEquals(Set.of(Algorithm.PAIRWISE, Algorithm.RAILS), both);
    }
    aTableIsMade(trials, exchange, operation);
  }

  private void aTableIsMade(Path trials, boolean exchange, String operation) throws IOException {
    StringWriter out = new StringWriter();
    StringWriter err = new StringWriter();
    Path table = folder.resolve("learned");
    int status =
        Main.run(
            new PrintWriter(out),
            new PrintWriter(err),
            "tune",
            "--from",
            trials.toString(),
            table.toString());
    assertEquals(0, status, err.toString());
    List<String> lines = Files.readAllLines(table);
    assertTrue(
        lines.stream().anyMatch(line -> line.startsWith("2x2/Socket " + operation)),
        lines.toString());
    CommunicatorConfig config = CommunicatorConfig.defaults().with(COSTS, table.toString());
    List<Communicator> ranks = CostsBetweenHostsTest.onHosts("aabb", config);
    String text =
        ranks
            .get(0)
            .explain(exchange ? Operation.ALL_TO_ALL : Operation.ALL_REDUCE, COUNT, DataType.INT32);
    assertTrue(text.contains("measured, " + table), text);
    assertFalse(text.contains("formula of messages"), text);
    CostsBetweenHostsTest.close(ranks);
  }

  /** One rank comes late to its calls. */
  @Test
  void ranksWithASlowOneTryTheSame() throws IOException {
    Path trials = folder.resolve("trials");
    List<Communicator> ranks = CostsBetweenHostsTest.onHosts("aabb", trying(trials));
    CostsBetweenHostsTest.onEach(
        ranks,
        rank -> {
          try (Calls of = new Calls(rank)) {
            for (int call = 0; call < CALLS; call++) {
              if (rank.rank() == 2 && call % 100 == 0) {
                Patience.sleep(5_000_000);
              }
              of.call(call, /* exchange= */ false);
            }
          }
        });
    CostsBetweenHostsTest.close(ranks);
    TrialsTest.assertSameWays(TrialFile.readAll(trials));
  }

  /** Where a rank ends without a word, the others' calls end, also those that wait for a vote. */
  @Test
  void aRankThatEndsEndsTheOthers() throws IOException {
    List<Communicator> ranks =
        CostsBetweenHostsTest.onHosts("aabb", trying(folder.resolve("trials")));
    AtomicInteger ended = new AtomicInteger();
    CostsBetweenHostsTest.onEach(
        ranks,
        rank -> {
          try (Calls of = new Calls(rank)) {
            for (int call = 0; call < MOST_CALLS; call++) {
              if (rank.rank() == 3 && call == 1000) {
                rank.abort();
              }
              of.call(call, /* exchange= */ false);
            }
          } catch (NcclException e) {
            ended.incrementAndGet();
          }
        });
    assertEquals(4, ended.get());
    CostsBetweenHostsTest.onEach(
        ranks,
        rank -> {
          try {
            rank.close();
          } catch (NcclException e) {
            ended.incrementAndGet(); // its operations failed
          }
        });
  }

  /** Votes go on over the bootstrap's new listeners. */
  @Test
  void trialsGoOnAfterASuspension() throws IOException {
    Path trials = folder.resolve("trials");
    List<Communicator> ranks = CostsBetweenHostsTest.onHosts("aabb", trying(trials));
    CostsBetweenHostsTest.onEach(
        ranks,
        rank -> {
          rank.suspend();
          rank.resume();
          call(rank, CALLS, /* exchange= */ false);
          rank.suspend();
          rank.resume();
          call(rank, CALLS, /* exchange= */ false);
        });
    CostsBetweenHostsTest.close(ranks);
    List<TrialTimes> files = TrialFile.readAll(trials);
    TrialsTest.assertSameWays(files);
    assertFalse(tried(files).isEmpty());
  }

  /** Splits share their parent's bootstrap, and hear the parent's votes as well as their own. */
  @Test
  void communicatorsThatCloseMeanwhileDisturbNothing() throws IOException {
    Path trials = folder.resolve("trials");
    List<Communicator> ranks = CostsBetweenHostsTest.onHosts("aabb", trying(trials));
    CostsBetweenHostsTest.onEach(
        ranks,
        rank -> {
          try (Calls of = new Calls(rank)) {
            int call = 0;
            for (int round = 0; round < 5; round++) {
              Communicator split = rank.split(0, rank.rank()).orElseThrow();
              try (Calls ofSplit = new Calls(split)) {
                for (int both = 0; both < CALLS / 5; both++) {
                  of.call(call++, /* exchange= */ false);
                  ofSplit.call(both, /* exchange= */ false);
                }
              }
              split.close();
            }
          }
        });
    CostsBetweenHostsTest.close(ranks);
    TrialFile.readAll(trials).stream()
        .collect(Collectors.groupingBy(TrialTimes::communicator))
        .values()
        .forEach(TrialsTest::assertSameWays);
  }
}
