package org.nccl4j.it.perf;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.logging.Filter;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.ChosenAlgorithm;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.it.cli.Main;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** The planner reads the file that {@code tune} writes, on the host device. */
@Timeout(600)
class TuneTest {
  private static final long STRIDE = 1 << 20;
  private static final String FILE = "NCCL4J_COSTS_FILE";

  @TempDir Path folder;
  private final StringWriter out = new StringWriter();
  private final StringWriter err = new StringWriter();

  private int run(String... words) {
    return Main.run(new PrintWriter(out), new PrintWriter(err), words);
  }

  private static CommunicatorConfig with(Path file) {
    return CommunicatorConfig.defaults().with(FILE, file.toString());
  }

  @Test
  void everyWayIsMeasuredAndTheTableIsUsed() throws Exception {
    Path file = folder.resolve("host.costs");
    List<String> warnings = new CopyOnWriteArrayList<>();
    Filter keep =
        line -> {
          if (line.getLevel().intValue() >= Level.WARNING.intValue()) {
            warnings.add(line.getMessage());
          }
          return true;
        };
    Logger logger = Logger.getLogger("org.nccl4j.TUNING");
    Filter before = logger.getFilter();
    logger.setFilter(keep);
    try {
      int status =
          run("tune", file.toString(), "--device", "host", "-t", "2", "-b", "256", "-e", "4K");
      assertEquals(0, status, err.toString());
    } finally {
      logger.setFilter(before);
    }
    assertEquals(List.of(), warnings, "the user has set no algorithm");
    List<String> lines = Files.readAllLines(file);
    assertTrue(lines.contains("device host"), lines.toString());
    for (String way :
        List.of(
            "2 AllReduce Ring Simple 256:",
            "2 AllReduce Tree LL 256:",
            "2 AllReduce OneShot LL128 256:",
            "2 AllGather OneShot Simple 256:",
            "2 ReduceScatter Ring LL 256:",
            "2 Broadcast Ring LL128 256:",
            "2 Reduce Ring Simple 256:",
            "2 AllReduce DirectTwoShot Simple 256:",
            "2 Broadcast DirectOneShot Simple 256:",
            "2 AllToAll Pairwise Simple 256:",
            "2 Gather DirectOneShot Simple 256:")) {
      assertTrue(lines.stream().anyMatch(line -> line.startsWith(way)), way + lines);
    }
    for (String line : lines.subList(3, lines.size())) {
      assertTrue(
          line.contains(" 4096:") || AlgorithmTimes.isHopeless(last(line), 0),
          "what is slow at a small size is measured at the next: " + line);
    }
    List<Communicator> ranks =
        Communicator.initAll(Collections.nCopies(2, Devices.host()), with(file));
    String table = ranks.get(0).explain(Operation.ALL_REDUCE, 1024, DataType.FLOAT32);
    assertTrue(table.contains("costs: measured, " + file), table);
    assertTrue(table.contains("with buffers in windows; costs: measured, " + file), table);
    ranks.forEach(Communicator::close);
  }

  /** The same buffers are in windows and out of them in turn. */
  @Test
  void nvlsThroughSlotsAndInPlaceHaveLinesOfTheirOwn() {
    List<String> lines = new ArrayList<>();
    List<Communicator> ranks =
        Communicator.initAll(
            Collections.nCopies(3, Devices.host()),
            CommunicatorConfig.defaults().with("NCCL4J_NVLS_MODE", "emulated"));
    try (AlgorithmTimes times = new AlgorithmTimes(ranks, 1024)) {
      assertEquals(Optional.empty(), times.noWindows());
      times.measure(256, lines::add);
    }
    for (String operation : List.of("AllReduce", "AllGather", "ReduceScatter")) {
      for (String way :
          List.of(" Ring Simple 256:", " NVLS Simple 256:", " DirectNVLS Simple 256:")) {
        assertTrue(
            lines.stream().anyMatch(line -> line.startsWith("3 " + operation + way)),
            () -> operation + way + lines);
      }
    }
  }

  /** Its table would have the times of other buffers than it says. */
  @Test
  void windowsThatCannotBeMadeAgainEndIt() {
    List<Communicator> ranks =
        Communicator.initAll(
            Collections.nCopies(3, Devices.host()),
            CommunicatorConfig.defaults()
                .with("NCCL4J_NVLS_MODE", "emulated")
                .with("NCCL_WIN_STRIDE", Long.toString(STRIDE)));
    List<DeviceMemory> others = new ArrayList<>();
    try (AlgorithmTimes times = new AlgorithmTimes(ranks, 1024)) {
      assertEquals(Optional.empty(), times.noWindows());
      InvalidUsageException refused =
          assertThrows(
              InvalidUsageException.class,
              () ->
                  times.measure(
                      1024,
                      line -> {
                        if (others.isEmpty() && line.contains(" NVLS Simple ")) {
                          others.addAll(fillWindows(ranks));
                        }
                      }));
      assertTrue(refused.problem().startsWith("the buffers cannot be put in windows again: "));
      assertTrue(refused.problem().contains("the windows' range"), refused.problem());
    } finally {
      others.forEach(DeviceMemory::close);
    }
  }

  /** Takes all of the range of windows. */
  private static List<DeviceMemory> fillWindows(List<Communicator> ranks) {
    List<DeviceMemory> all = new ArrayList<>();
    for (long bytes = STRIDE; bytes > 0; bytes /= 2) {
      long size = bytes;
      List<DeviceMemory> each = ranks.stream().map(rank -> rank.device().memAlloc(size)).toList();
      all.addAll(each);
      try {
        Group.run(
            () -> {
              for (int rank = 0; rank < ranks.size(); rank++) {
                ranks.get(rank).registerWindow(each.get(rank));
              }
            });
      } catch (InvalidArgumentException e) {
        assertTrue(e.problem().contains("the windows' range"), e.problem());
      }
    }
    return all;
  }

  private static double last(String line) {
    return Double.parseDouble(line.substring(line.lastIndexOf(':') + 1));
  }

  @Test
  void onlyLongTimesAreSpared() {
    assertFalse(AlgorithmTimes.isHopeless(28.5, 0.45), "another program had the core");
    assertFalse(AlgorithmTimes.isHopeless(10_000, 2000), "others are not much better");
    assertTrue(AlgorithmTimes.isHopeless(13_000, 2000));
  }

  /** A table that says the opposite of what is true is believed. */
  @Test
  void theChoiceFollowsTheTable() throws Exception {
    Path file = folder.resolve("odd");
    Files.writeString(file, "device host\n2 AllReduce Tree LL 8:0.001 1073741824:0.002\n");
    List<Communicator> ranks =
        Communicator.initAll(Collections.nCopies(2, Devices.host()), with(file));
    assertEquals(
        new ChosenAlgorithm(Algorithm.TREE, Protocol.LL),
        ranks.get(0).chosenAlgorithm(Operation.ALL_REDUCE, 1 << 20, DataType.FLOAT32));
    ranks.forEach(Communicator::close);
  }

  @Test
  void directWaysFollowItToo() throws Exception {
    Path file = folder.resolve("direct");
    Files.writeString(
        file,
        "device host\n2 AllReduce DirectTwoShot Simple 8:0.001 1073741824:0.002\n"
            + "2 AllToAll Pairwise Simple 8:0.001\n2 AllToAll DirectOneShot Simple 8:0.1\n");
    List<Communicator> ranks =
        Communicator.initAll(Collections.nCopies(2, Devices.host()), with(file));
    assertEquals(
        new ChosenAlgorithm(Algorithm.DIRECT_TWO_SHOT, Protocol.SIMPLE),
        ranks.get(0).chosenAlgorithmInWindows(Operation.ALL_REDUCE, 2, DataType.FLOAT32));
    assertEquals(
        Algorithm.PAIRWISE,
        ranks
            .get(0)
            .chosenAlgorithmInWindows(Operation.ALL_TO_ALL, 1 << 20, DataType.FLOAT32)
            .algorithm());
    ranks.forEach(Communicator::close);
  }

  @Test
  void ranksWithDifferentTablesAreRefused() throws Exception {
    Path file = folder.resolve("one");
    Files.writeString(file, "device host\n2 AllReduce Tree LL 8:0.001\n");
    UniqueId id = UniqueId.create();
    CompletableFuture<Communicator> other =
        CompletableFuture.supplyAsync(
            () -> Communicator.initRank(2, id, 1, Devices.host(), CommunicatorConfig.defaults()),
            task -> new Thread(task).start());
    var error =
        assertThrows(
            NcclException.class, () -> Communicator.initRank(2, id, 0, Devices.host(), with(file)));
    assertTrue(
        error.problem().contains("ranks 0 and 1 have different tables of measured times"),
        error.problem());
    assertThrows(CompletionException.class, other::join);
  }

  @Test
  void badInputIsRefused() {
    assertEquals(2, run("tune"));
    assertTrue(run("tune", folder.resolve("x").toString(), "--device", "host", "-t", "1") != 0);
    assertTrue(err.toString().contains("-t 1"), err.toString());
    assertTrue(
        run("tune", folder.resolve("x").toString(), "--device", "host", "-b", "8", "-e", "4") != 0);
    assertTrue(
        run("tune", folder.resolve("no/x").toString(), "--device", "host", "-b", "8", "-e", "8")
            != 0);
    assertTrue(err.toString().contains("the table cannot be written"), err.toString());
    assertTrue(
        err.toString().contains("there is no folder " + folder.resolve("no")), err.toString());
    assertTrue(
        run("tune", folder.resolve("x").toString(), "--device", "host", "--launched", "-t", "2")
            != 0);
    assertTrue(err.toString().contains("with --launched the launcher does"), err.toString());
    assertFalse(out.toString().contains("AllReduce"), "it is said before anything is measured");
  }
}
