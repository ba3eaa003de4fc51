package org.nccl4j.it.perf;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.UniqueId;
import org.nccl4j.api.plan.trial.TrialFile;
import org.nccl4j.api.plan.trial.TrialTimes;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.it.cli.Main;
import org.nccl4j.operation.Operation;

/** Ranks try algorithms in their calls, and {@code tune --from} makes a table of the times. */
@Timeout(600)
class TrialsTest {
  private static final String TRIALS = "NCCL4J_TRIALS";
  private static final String COSTS = "NCCL4J_COSTS_FILE";
  private static final int COUNT = 64;

  /** Enough for three trials of each of three algorithms that are thrice as slow. */
  private static final int CALLS = 10_000;

  private static final int MOST_CALLS = 640_000;

  @TempDir Path folder;

  /** The name of the folder for the files of trials. */
  private String trials = "trials";

  private final StringWriter out = new StringWriter();
  private final StringWriter err = new StringWriter();

  private int run(String... words) {
    return Main.run(new PrintWriter(out), new PrintWriter(err), words);
  }

  private CommunicatorConfig trying() {
    return CommunicatorConfig.defaults().with(TRIALS, folder.resolve(trials).toString());
  }

  /** Calls all-reduces of two ranks, in groups or not, and checks every one's sum. */
  private static void call(CommunicatorConfig config, int calls, boolean grouped) {
    List<Communicator> ranks = Communicator.initAll(Collections.nCopies(2, Devices.host()), config);
    List<CompletableFuture<Void>> threads =
        IntStream.range(0, grouped ? 1 : 2)
            .mapToObj(
                rank ->
                    CompletableFuture.runAsync(
                        () -> call(grouped ? ranks : List.of(ranks.get(rank)), calls),
                        task -> new Thread(task).start()))
            .toList();
    threads.forEach(CompletableFuture::join);
    ranks.forEach(Communicator::close);
  }

  private static void call(List<Communicator> ranks, int calls) {
    List<ByteBuffer> data =
        ranks.stream()
            .map(rank -> ByteBuffer.allocateDirect(4 * COUNT).order(ByteOrder.nativeOrder()))
            .toList();
    List<DeviceMemory> buffers = data.stream().map(Devices::wrap).toList();
    List<DeviceStream> streams = ranks.stream().map(rank -> rank.device().createStream()).toList();
    for (int call = 0; call < calls; call++) {
      for (ByteBuffer each : data) {
        for (int i = 0; i < COUNT; i++) {
          each.putInt(4 * i, call + i);
        }
      }
      Group.start();
      for (int rank = 0; rank < ranks.size(); rank++) {
        DeviceMemory buffer = buffers.get(rank);
        ranks
            .get(rank)
            .allReduce(buffer, buffer, COUNT, DataType.INT32, RedOp.SUM, streams.get(rank));
      }
      Group.end();
      streams.forEach(DeviceStream::synchronize);
      for (ByteBuffer each : data) {
        for (int i = 0; i < COUNT; i++) {
          assertEquals(2 * (call + i), each.getInt(4 * i));
        }
      }
    }
    streams.forEach(DeviceStream::close);
  }

  private List<TrialTimes> files() {
    return TrialFile.readAll(folder.resolve(trials));
  }

  /** Again, with more calls, where one trial took so long that the next ones wait. */
  private List<TrialTimes> tryAlgorithms() {
    List<TrialTimes> files;
    int calls = CALLS;
    do {
      trials = "trials" + calls;
      call(trying(), calls, /* grouped= */ false);
      files = files();
      calls *= 4;
    } while (calls <= MOST_CALLS && (ways(files).size() <= 2 || !isEnough(files)));
    return files;
  }

  /** True if some way has been measured often enough for a table. */
  private static boolean isEnough(List<TrialTimes> files) {
    try {
      return !LearnedTable.of(files).report().isEmpty();
    } catch (InvalidArgumentException e) {
      return false;
    }
  }

  /**
   * Asserts that no call has been measured with two ways, and returns the number of the calls that
   * all ranks have measured. A rank that has many under way measures no more for a moment.
   */
  static long assertSameWays(List<TrialTimes> files) {
    Map<String, Set<TrialTimes.Way>> ways = new HashMap<>();
    Map<String, Integer> ranks = new HashMap<>();
    for (TrialTimes file : files) {
      for (TrialTimes.Sample sample : file.samples()) {
        String call = "call %d of shape %d".formatted(sample.call(), sample.shape());
        ways.computeIfAbsent(call, none -> new HashSet<>()).add(sample.way());
        ranks.merge(call, 1, Integer::sum);
      }
    }
    ways.forEach((call, of) -> assertEquals(1, of.size(), () -> call + ": " + of));
    return ranks.values().stream().filter(all -> all == files.size()).count();
  }

  private static Set<TrialTimes.Way> ways(List<TrialTimes> files) {
    Set<TrialTimes.Way> ways = new HashSet<>();
    files.forEach(file -> file.samples().forEach(sample -> ways.add(sample.way())));
    return ways;
  }

  @Test
  void ranksTryTheSameAlgorithmsInTheSameCalls() throws IOException {
    List<TrialTimes> files = tryAlgorithms();
    assertEquals(2, files.size());
    assertTrue(files.get(1).predictions().isEmpty());
    for (TrialTimes file : files) {
      for (TrialTimes.Sample sample : file.samples()) {
        assertTrue(sample.measured() > 0, sample.toString());
        assertEquals(COUNT * 4, sample.bytes());
      }
    }
    assertTrue(assertSameWays(files) > 0, "no call was measured by both ranks");
    assertTrue(ways(files).size() > 2, ways(files).toString());

    Path table = folder.resolve("table");
    int status = run("tune", "--from", folder.resolve(trials).toString(), table.toString());
    assertEquals(0, status, err.toString());
    assertTrue(out.toString().contains("2 ranks, AllReduce of 256 bytes: "), out.toString());
    assertTrue(out.toString().contains("(chosen)"), out.toString());
    List<Communicator> ranks =
        Communicator.initAll(
            Collections.nCopies(2, Devices.host()),
            CommunicatorConfig.defaults().with(COSTS, table.toString()));
    String text = ranks.get(0).explain(Operation.ALL_REDUCE, COUNT, DataType.INT32);
    assertTrue(text.contains("costs: measured, " + table), text);
    ranks.forEach(Communicator::close);
  }

  @Test
  void onlySomeRanksWithTrialsAreRefused() {
    UniqueId id = UniqueId.create();
    CompletableFuture<Communicator> other =
        CompletableFuture.supplyAsync(
            () -> Communicator.initRank(2, id, 1, Devices.host(), CommunicatorConfig.defaults()),
            task -> new Thread(task).start());
    var error =
        assertThrows(
            NcclException.class, () -> Communicator.initRank(2, id, 0, Devices.host(), trying()));
    assertTrue(error.problem().contains("different values of NCCL4J_TRIALS"), error.problem());
    assertThrows(CompletionException.class, other::join);
  }

  /** As in containers with a /tmp each: ranks of one machine that do not find each other. */
  @Test
  void ranksThatDoNotShareAFolderAreTold() {
    List<String> lines = new CopyOnWriteArrayList<>();
    Handler handler = new Lines(lines);
    Logger logger = Logger.getLogger("org.nccl4j.TUNING");
    logger.addHandler(handler);
    try {
      UniqueId id = UniqueId.create();
      IntStream.range(0, 2)
          .mapToObj(
              rank ->
                  CompletableFuture.runAsync(
                      () -> callAlone(id, rank), task -> new Thread(task).start()))
          .toList()
          .forEach(CompletableFuture::join);
    } finally {
      logger.removeHandler(handler);
    }
    assertEquals(2, lines.size(), lines.toString());
    for (int rank = 0; rank < 2; rank++) {
      String other = "ranks [%d] of this machine have not joined in".formatted(1 - rank);
      assertEquals(1, lines.stream().filter(line -> line.contains(other)).count(), lines::toString);
      assertTrue(lines.get(rank).contains("tries no algorithms"), lines.get(rank));
      assertTrue(lines.get(rank).contains("name a folder in NCCL4J_TRIALS that"), lines.get(rank));
    }
    Path table = folder.resolve("table");
    assertEquals(0, run("tune", "--from", folder.resolve("0").toString(), table.toString()));
    String note = "# a communicator of 2 ranks tried nothing, since its ranks [1] had not joined";
    assertTrue(out.toString().contains(note), out.toString());
  }

  private void callAlone(UniqueId id, int rank) {
    String own = folder.resolve(Integer.toString(rank)).toString();
    try (Communicator communicator =
        Communicator.initRank(
            2, id, rank, Devices.host(), CommunicatorConfig.defaults().with(TRIALS, own))) {
      call(List.of(communicator), CALLS);
    }
  }

  /** Keeps the warnings of a log. */
  private static final class Lines extends Handler {
    private static final SimpleFormatter FORMATTER = new SimpleFormatter();
    private final List<String> lines;

    Lines(List<String> lines) {
      this.lines = lines;
    }

    @Override
    public void publish(LogRecord line) {
      if (line.getLevel().intValue() >= Level.WARNING.intValue()) {
        lines.add(FORMATTER.formatMessage(line));
      }
    }

    @Override
    public void flush() {}

    @Override
    public void close() {}
  }

  @Test
  void aFolderThatOthersMayWriteIsToldOnce() throws IOException {
    Path open = Files.createDirectory(folder.resolve(trials));
    Files.setPosixFilePermissions(open, PosixFilePermissions.fromString("rwxrwxrwx"));
    List<String> lines = new CopyOnWriteArrayList<>();
    Handler handler = new Lines(lines);
    Logger logger = Logger.getLogger("org.nccl4j.TUNING");
    logger.addHandler(handler);
    try {
      call(trying(), 1000, /* grouped= */ false);
    } finally {
      logger.removeHandler(handler);
    }
    assertEquals(1, lines.size(), lines.toString());
    for (String part :
        List.of(
            "tries no algorithms",
            "all users may write to it",
            "chown " + System.getProperty("user.name") + " " + open,
            "chmod u+rwx,o-w " + open,
            "another folder in NCCL4J_TRIALS")) {
      assertTrue(lines.get(0).contains(part), lines.get(0));
    }
    try (Stream<Path> files = Files.list(open)) {
      assertEquals(List.of(), files.toList());
    }
  }

  @Test
  void aFolderThatCannotBeWrittenDisturbsNothing() throws IOException {
    Path file = Files.createFile(folder.resolve(trials));
    call(trying(), 1000, /* grouped= */ false);
    assertEquals(0, Files.size(file));
  }

  @Test
  void tooFewTrialsAndOtherOptionsAreRefused() {
    call(trying(), 500, /* grouped= */ true);
    Path table = folder.resolve("table");
    String none = folder.resolve(trials).toString();
    assertNotEquals(0, run("tune", "--from", none, table.toString()));
    assertTrue(err.toString().contains("let the job run longer"), err.toString());
    assertFalse(Files.exists(table));
    assertNotEquals(0, run("tune", "--from", none, "-t", "2", table.toString()));
    assertTrue(err.toString().contains("-t says what is measured"), err.toString());
  }
}
