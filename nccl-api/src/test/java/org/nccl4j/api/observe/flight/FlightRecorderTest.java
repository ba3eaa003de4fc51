package org.nccl4j.api.observe.flight;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.observe.flight.RankReport.Operation;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.CallShape;

/** Records are read again, in this process and as another process reads them. */
class FlightRecorderTest {
  private static final List<String> NAMES = List.of("all_reduce", "broadcast", "send", "recv");
  private static final int ROOTS = 1 << 20;

  private final FlightRecorder log =
      FlightRecorder.open(new FlightRecorder.Rank("words", System.nanoTime(), 3, ROOTS, NAMES, ""));

  @AfterEach
  void close() {
    log.close();
  }

  /** More than there is room for, so that what is left counts on from what is gone. */
  @ParameterizedTest
  @CsvSource({
    "1, 1",
    "5, 3",
    "119, 1",
    "120, 1",
    "121, 1",
    "500, 1",
    "127, 2",
    "1000, 3",
    "9000, 90"
  })
  void theLastOperationsAreReadWithTheirNumbers(int operations, int inARow) {
    Random random = new Random(operations);
    List<Operation> called = new ArrayList<>();
    int collectives = 0;
    List<Integer> runs = new ArrayList<>();
    while (called.size() < operations) {
      int operation = random.nextInt(called.isEmpty() || !isOther(called) ? 5 : 4);
      DataType type = DataType.values()[random.nextInt(DataType.values().length)];
      RedOp op = RedOp.values()[random.nextInt(RedOp.values().length)];
      int root = random.nextInt(ROOTS);
      long count = random.nextLong() >>> 16;
      long shape = CallShape.of(operation, type.ordinal(), op.ordinal(), root);
      runs.add(called.size());
      int end = Math.min(operations, called.size() + 1 + random.nextInt(inARow));
      while (called.size() < end) {
        collectives += operation < 2 ? 1 : 0;
        if (operation < 2) {
          log.collective(shape, count);
        } else {
          log.other(operation == 4 ? FlightRecorder.UNNAMED : shape, operation == 4 ? 0 : count);
        }
        int number = called.size() + 1;
        called.add(expected(number, collectives, operation, type, op, root, count));
      }
    }
    // The oldest run that is there may be being overwritten.
    int known =
        runs.size() < FlightRecorder.RUNS ? 0 : runs.get(runs.size() - FlightRecorder.RUNS + 1);
    int oldest = Math.max(known, operations - FlightRecorder.ENTRIES + 1);
    List<Operation> last = called.subList(oldest, operations);
    RankReport report = log.report(NAMES);
    assertEquals(operations, report.launched());
    List<Operation> read = report.operations();
    assertEquals(last, read.subList(read.size() - last.size(), read.size()));
    // None has ended as far as is known, so the first is told too where its run is.
    assertEquals(known == 0 ? called.get(0) : null, report.current());
    assertEquals(last.size() + (known == 0 && oldest > 0 ? 1 : 0), read.size());
    assertTrue(
        fromOutside().stream()
            .filter(other -> other.communicator() == report.communicator())
            .anyMatch(other -> other.operations().equals(read)));
  }

  /** In a container a process writes its number there into its recorder. */
  @Test
  void aProcessGoesByItsNumberOnThisHost() throws IOException {
    long pid = ProcessHandle.current().pid();
    try (RandomAccessFile recorder = new RandomAccessFile(recorder().toFile(), "rw")) {
      write(recorder, pid + 1);
      try {
        assertEquals(Set.of(pid), pids(FlightReader.ofProcess(pid)));
        Set<Long> ofHost = pids(FlightReader.ofThisHost());
        assertTrue(ofHost.contains(pid), ofHost::toString);
        assertEquals(Set.of(pid + 1), pids(fromOutside())); // as of a file
      } finally {
        write(recorder, pid);
      }
    }
  }

  /** This process's recorder, as a file. */
  private static Path recorder() throws IOException {
    try (Stream<Path> open = Files.list(Path.of("/proc/self/fd"))) {
      return open.filter(FlightRecorderTest::isRecorder).findFirst().orElseThrow();
    }
  }

  private static boolean isRecorder(Path descriptor) {
    try {
      return Files.readSymbolicLink(descriptor).toString().startsWith("/memfd:nccl4j")
          && Files.size(descriptor) == (1 + FlightFile.SLOTS) * FlightFile.PAGE;
    } catch (IOException e) {
      return false; // closed meanwhile
    }
  }

  private static void write(RandomAccessFile recorder, long pid) throws IOException {
    ByteBuffer bytes = ByteBuffer.allocate(Long.BYTES).order(ByteOrder.nativeOrder());
    recorder.seek(FlightFile.PID);
    recorder.write(bytes.putLong(pid).array());
  }

  private static Set<Long> pids(List<RankReport> reports) {
    return reports.stream().map(report -> report.process().pid()).collect(Collectors.toSet());
  }

  /** Two of these after each other would be one run. */
  private static boolean isOther(List<Operation> called) {
    return called.get(called.size() - 1).label().equals("other");
  }

  /** A process has one list of names, and another test may have made it in this one. */
  private static List<RankReport> fromOutside() {
    byte[] copy = FlightReader.copy(ProcessHandle.current().pid()).orElseThrow();
    byte[] names = (String.join(" ", NAMES) + "\0").getBytes(StandardCharsets.UTF_8);
    System.arraycopy(names, 0, copy, FlightFile.NAMES, names.length);
    return FlightReader.parse(ByteBuffer.wrap(copy).order(ByteOrder.nativeOrder()));
  }

  private static Operation expected(
      int number, int collective, int operation, DataType type, RedOp op, int root, long count) {
    if (operation == 4) {
      return new Operation(number, collective, "other", 0, 0, 0, "another operation");
    }
    String elements = count + " " + type.label();
    String text =
        switch (operation) {
          case 0 -> "all_reduce of %s (%s)".formatted(elements, op.label());
          case 1 -> "broadcast of %s, root %d".formatted(elements, root);
          case 2 -> "send of %s to rank %d".formatted(elements, root);
          default -> "recv of %s from rank %d".formatted(elements, root);
        };
    String label = NAMES.get(operation);
    return new Operation(number, collective, label, root, count, count * type.bytes(), text);
  }
}
