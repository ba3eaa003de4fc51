package org.nccl4j.api.observe.flight;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
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

  /** Two of these after each other would be one run. */
  private static boolean isOther(List<Operation> called) {
    return called.get(called.size() - 1).label().equals("other");
  }

  /** A process has one list of names, and another test may have made it in this one. */
  private static List<RankReport> fromOutside() {
    byte[] copy = FlightReader.copy(ProcessHandle.current().pid()).orElseThrow();
    byte[] names = (String.join(" ", NAMES) + "\0").getBytes(StandardCharsets.UTF_8);
    System.arraycopy(names, 0, copy, FlightFile.NAMES, names.length);
    return FlightReader.parse(ByteBuffer.wrap(copy).order(ByteOrder.nativeOrder()), "");
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
