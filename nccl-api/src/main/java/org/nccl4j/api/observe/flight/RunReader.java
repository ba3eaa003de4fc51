package org.nccl4j.api.observe.flight;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.stream.LongStream;
import org.nccl4j.api.observe.flight.RankReport.Operation;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.CallText;

/** Reads the operations that a slot of a flight recorder has, out of its runs. Any thread. */
final class RunReader {
  /** The newest first. */
  private final List<Run> runs = new ArrayList<>();

  private final long launched;
  private final String[] names;

  /**
   * Operations of one shape and count, one after the other, and how many collectives till its end.
   */
  private record Run(long shape, long count, long first, long end, long collectives) {
    boolean isCollective() {
      return FlightRecorder.isCollective(shape);
    }

    long collectivesUpTo(long number) {
      return isCollective() ? collectives - (end - 1 - number) : collectives;
    }
  }

  /**
   * Reads what a slot has now. The oldest run's place is the next run's, which may be written at
   * this moment.
   *
   * @param launchedAndRun its word of that name
   * @param names of operations by number
   */
  RunReader(ByteBuffer page, long launchedAndRun, String[] names) {
    this.launched = FlightRecorder.launched(launchedAndRun);
    this.names = names;
    long end = launched + 1;
    long collectives = launched - page.getLong(FlightRecorder.OTHERS);
    for (int back = 0; back < FlightRecorder.RUNS - 1 && end > 1; back++) {
      int place = (int) (launchedAndRun - back) & FlightRecorder.RUNS - 1;
      int at = FlightRecorder.RING + place * FlightRecorder.RUN_BYTES;
      long first = page.getLong(at + 16);
      if (first <= 0 || first >= end) {
        // The run was overwritten since.
        return;
      }
      Run run = new Run(page.getLong(at), page.getLong(at + 8), first, end, collectives);
      runs.add(run);
      collectives -= run.isCollective() ? end - first : 0;
      end = first;
    }
  }

  /**
   * The last operations, oldest first.
   *
   * @param older others that are wanted too, if they are in a run that is known
   */
  List<Operation> last(long... older) {
    long oldest = Math.max(1, launched - FlightRecorder.ENTRIES + 2);
    return LongStream.concat(
            LongStream.of(older).filter(number -> number > 0 && number < oldest),
            LongStream.rangeClosed(oldest, launched))
        .distinct()
        .sorted()
        .filter(number -> !runs.isEmpty() && number >= runs.get(runs.size() - 1).first)
        .mapToObj(this::operation)
        .toList();
  }

  /** Visits the operations on record with numbers above one and up to another, newest first. */
  void visit(long above, long upTo, FlightRecorder.OperationVisitor visitor) {
    for (Run run : runs) {
      long number = Math.min(run.end - 1, upTo) - Math.max(run.first - 1, above);
      if (number > 0) {
        visitor.visit(FlightRecorder.ofCall(run.shape), run.count, number);
      }
    }
  }

  /** The runs on record, oldest first. */
  List<RankReport.Run> runs() {
    List<RankReport.Run> oldestFirst = new ArrayList<>();
    for (Run run : runs) {
      Operation first = operation(run.first, 0, run);
      oldestFirst.add(0, new RankReport.Run(first.label(), first.bytes(), run.first, run.end - 1));
    }
    return oldestFirst;
  }

  private Operation operation(long number) {
    Run run = runs.stream().filter(one -> one.first <= number).findFirst().orElseThrow();
    return operation(number, run.collectivesUpTo(number), run);
  }

  private Operation operation(long number, long collective, Run run) {
    int code = CallShape.number(run.shape);
    int root = CallShape.root(run.shape);
    int function = CallShape.function(run.shape);
    long count = run.count;
    if (code >= names.length) {
      return new Operation(number, collective, "other", root, count, 0, "another operation");
    }
    String label = names[code];
    DataType type = Objects.requireNonNullElse(CallShape.type(run.shape), DataType.INT8);
    RedOp op = Objects.requireNonNullElse(CallShape.op(run.shape), RedOp.SUM);
    String text =
        org.nccl4j.operation.Operation.find(label)
            .map(known -> CallText.of(known, count, type, op.label(), root, function))
            .orElse(label);
    return new Operation(number, collective, label, root, count, count * type.bytes(), text);
  }
}
