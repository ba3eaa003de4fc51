package org.nccl4j.api.group;

import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.plan.Planner;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.operation.Operation;

/**
 * The reductions of one rank by a user's function that go in steps: all of them on GPUs, and on the
 * host those of structs and of functions that are not commutative. Copies of the elements come
 * together by collectives of bytes, and a step on the rank's own memory combines them in the order
 * of the ranks. So this works by all algorithms and transports, also between hosts, and all ranks
 * get the same bits.
 *
 * <p>Few elements are gathered by each rank that needs the result. Of many each rank combines a
 * part: an all-to-all brings it all copies of the part, and an all-gather, or a gather to the root,
 * the results. The way is chosen by predicted times, which are the same on all ranks.
 *
 * <p>Owner: the thread that is in the launcher.
 */
final class FunctionReductions {
  /** Parts that are not the user's memory begin at multiples of so many bytes. */
  private static final int PART_ALIGNMENT = 16;

  /** Microseconds of a step on the rank's own memory, without its elements. */
  private static final double STEP_MICROS = 3;

  /** Bytes that a step of a GPU reads and writes in a microsecond: half of an H100's memory's. */
  private static final double GPU_BYTES_PER_MICRO = 1_500_000;

  /** Bytes that a step of the host reads and writes in a microsecond, with a simple function. */
  private static final double HOST_BYTES_PER_MICRO = 1_000;

  private final int rank;
  private final int nRanks;
  private final boolean onGpu;

  /** Copies of elements. */
  private final StepMemory copies;

  /** This rank's part, or elements of all parts where the user's buffers cannot hold them. */
  private final StepMemory parts;

  FunctionReductions(int rank, int nRanks, Device device) {
    this.rank = rank;
    this.nRanks = nRanks;
    this.onGpu = device.kind() == Device.Kind.CUDA;
    this.copies = new StepMemory(device);
    this.parts = new StepMemory(device);
  }

  /** A call of the user's; buffers that are not looked at may be null. */
  record Reduced(
      long shape,
      ReductionOperator operator,
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DeviceStream stream) {}

  /** Collectives that one reduction launches at most. */
  static final int MOST_LAUNCHES = 2;

  /** True for an operator whose reductions go in steps on a device. */
  static boolean takes(ReductionOperator operator, Device device) {
    return operator.isFunction()
        && (device.kind() == Device.Kind.CUDA
            || operator.isOfStructs()
            || !operator.isCommutative());
  }

  /** Throws for a function that the device does not have, or that the arguments do not fit. */
  static void check(Reduced call, Device device, String who) {
    ReductionOperator operator = call.operator;
    long shape = call.shape;
    long count = call.count;
    if (!operator.isFunction()) {
      return;
    }
    boolean gpu = device.kind() == Device.Kind.CUDA;
    if (gpu ? operator.functor() == null : operator.combiner() == null) {
      throw new InvalidUsageException(
          ErrorId.UNSUPPORTED,
          "%s on %s: this device has no reduction '%s'"
              .formatted(CallShape.operation(shape).key(), who, operator.name()),
          gpu
              ? "make the operator by ReductionOperator.function and give it a function for GPUs by"
                  + " onCuda, or use an operator of RedOp or the host device"
              : "give the operator a function for the host device by onHost");
    }
    if (operator.isOfStructs()) {
      int bytes = operator.elementBytes();
      if (count % bytes != 0) {
        throw wrong(
            shape,
            who,
            ErrorId.COUNT,
            "%d bytes are not whole structs of %d".formatted(count, bytes),
            "pass the number of structs times %d as count".formatted(bytes));
      }
      if (gpu && count > 0) {
        int alignment = Math.min(PART_ALIGNMENT, Integer.lowestOneBit(bytes));
        checkAligned(shape, who, "send", call.send, alignment);
        checkAligned(shape, who, "recv", call.recv, alignment);
      }
    }
  }

  private static void checkAligned(
      long shape, String who, String which, DeviceMemory buffer, int alignment) {
    if (buffer != null && (buffer.address() & alignment - 1) != 0) {
      throw wrong(
          shape,
          who,
          ErrorId.BUFFER,
          "the %s buffer begins at 0x%x, and structs of this size at multiples of %d on a GPU"
              .formatted(which, buffer.address(), alignment),
          "pass memory that begins at such a multiple");
    }
  }

  private static NcclException wrong(
      long shape, String who, ErrorId id, String problem, String remedy) {
    return new InvalidArgumentException(
        id, "%s on %s: %s".formatted(CallShape.operation(shape).key(), who, problem), remedy);
  }

  /**
   * The layout of a call.
   *
   * @param bytes of an element
   * @param count elements of a rank's send buffer; of a reduce-scatter those of a part
   * @param part elements of a part; 0 where each rank that needs the result combines all elements
   */
  private record Layout(Operation operation, int bytes, long count, long part, int nRanks) {
    boolean isGathered() {
      return part == 0;
    }

    /** True if the parts are the whole of the user's buffer, so that they need no other memory. */
    boolean isEven() {
      return part * nRanks == count || operation == Operation.REDUCE_SCATTER;
    }

    long partBytes() {
      return part * bytes;
    }

    /** Bytes of count elements. */
    long wholeBytes() {
      return count * bytes;
    }

    /** Elements of a rank's part that there are. */
    long elements(int rank) {
      return operation == Operation.REDUCE_SCATTER
          ? count
          : Math.max(0, Math.min(part, count - rank * part));
    }
  }

  private Layout layout(Planner planner, long shape, long count, ReductionOperator operator) {
    Operation operation = CallShape.operation(shape);
    int bytes =
        operator.elementBytes() == 0 ? CallShape.type(shape).bytes() : operator.elementBytes();
    long elements = CallShape.bytes(shape, count) / bytes;
    if (operation == Operation.REDUCE_SCATTER) {
      return new Layout(operation, bytes, elements, elements, nRanks);
    }
    long part = (elements + nRanks - 1) / nRanks;
    if (part * nRanks != elements) {
      int ofUnit = PART_ALIGNMENT / Integer.min(PART_ALIGNMENT, Integer.lowestOneBit(bytes));
      part = (part + ofUnit - 1) / ofUnit * ofUnit;
    }
    Layout inParts = new Layout(operation, bytes, elements, part, nRanks);
    Layout gathered = new Layout(operation, bytes, elements, 0, nRanks);
    return predict(planner, gathered) <= predict(planner, inParts) ? gathered : inParts;
  }

  private double predict(Planner planner, Layout layout) {
    long gather = gatherShape(layout.operation, 0);
    if (layout.isGathered()) {
      return planner.predict(gather, layout.wholeBytes()) + stepMicros(nRanks, layout.wholeBytes());
    }
    double combined =
        planner.predict(allToAllShape(), layout.partBytes())
            + stepMicros(nRanks, layout.partBytes());
    return layout.operation == Operation.REDUCE_SCATTER
        ? combined
        : combined
            + planner.predict(gather, layout.partBytes())
            + (layout.isEven() ? 0 : 2 * stepMicros(1, layout.wholeBytes()));
  }

  /** Predicted microseconds of a step that combines some copies of so many bytes. */
  private double stepMicros(int copies, long bytes) {
    double rate = onGpu ? GPU_BYTES_PER_MICRO : HOST_BYTES_PER_MICRO;
    return STEP_MICROS + (copies + 1.0) * bytes / rate;
  }

  /** Predicted microseconds of a call. */
  double predict(Planner planner, long shape, long count, ReductionOperator operator) {
    return nRanks == 1
        ? planner.predict(shape, count)
        : predict(planner, layout(planner, shape, count, operator));
  }

  private static long allToAllShape() {
    return CallShape.of(Operation.ALL_TO_ALL, DataType.UINT8, RedOp.SUM, 0);
  }

  /** Brings parts, or whole copies, to the ranks that need the result. */
  private static long gatherShape(Operation operation, int root) {
    return operation == Operation.REDUCE
        ? CallShape.of(Operation.GATHER, DataType.UINT8, RedOp.SUM, root)
        : CallShape.of(Operation.ALL_GATHER, DataType.UINT8, RedOp.SUM, 0);
  }

  /**
   * Compiles and loads what a call needs, before a kernel waits for another rank: a driver may load
   * code only when none does.
   */
  void prepare(Planner planner, long shape, long count, ReductionOperator operator) {
    if (nRanks > 1) {
      new Call(planner, null, shape, layout(planner, shape, count, operator), operator, null)
          .prepare();
    }
  }

  /** Launches a call that has been checked; between enter and leave. */
  void launch(Planner planner, Launcher launcher, Reduced call) {
    long shape = call.shape;
    DeviceMemory send = call.send;
    DeviceMemory recv = call.recv;
    if (nRanks == 1) { // the result is the rank's own elements
      launcher.launchCollective(
          planner.plan(shape, send, recv, call.count), send, recv, call.stream, shape, call.count);
      return;
    }
    Layout layout = layout(planner, shape, call.count, call.operator);
    Call steps = new Call(planner, launcher, shape, layout, call.operator, call.stream);
    steps.prepare();
    if (layout.isGathered()) {
      steps.gatherAndCombine(send, recv);
    } else {
      steps.combineInParts(send, recv);
    }
  }

  /** One call: its collectives and steps are launched one after the other. */
  private final class Call {
    private final Planner planner;
    private final Launcher launcher;
    private final long shape;
    private final int root;
    private final Layout layout;
    private final ReductionOperator operator;
    private final DeviceStream stream;

    Call(
        Planner planner,
        Launcher launcher,
        long shape,
        Layout layout,
        ReductionOperator operator,
        DeviceStream stream) {
      this.planner = planner;
      this.launcher = launcher;
      this.shape = shape;
      this.root = CallShape.root(shape);
      this.layout = layout;
      this.operator = operator;
      this.stream = stream;
    }

    /** True if this rank gets the result. */
    private boolean receives() {
      return layout.operation != Operation.REDUCE || rank == root;
    }

    void prepare() {
      planner.plan(operator, type(), nRanks, stride(), elements());
    }

    private DeviceMemory copiesMemory(long bytes) {
      return copies.of(bytes, stream.isCapturing());
    }

    private DeviceMemory partsMemory(long bytes) {
      return parts.of(bytes, stream.isCapturing());
    }

    private DataType type() {
      return CallShape.type(shape);
    }

    private long stride() {
      return layout.isGathered() ? layout.wholeBytes() : layout.partBytes();
    }

    private long elements() {
      return layout.isGathered() ? layout.count : layout.elements(rank);
    }

    /** All copies come to each rank that needs the result. */
    void gatherAndCombine(DeviceMemory send, DeviceMemory recv) {
      DeviceMemory all = receives() ? copiesMemory(nRanks * layout.wholeBytes()) : null;
      collective(gatherShape(layout.operation, root), send, all);
      if (receives()) {
        combine(all, recv);
      }
    }

    /** All copies of a part come to its rank, and the results go on. */
    void combineInParts(DeviceMemory send, DeviceMemory recv) {
      long part = layout.partBytes();
      long all = nRanks * part;
      DeviceMemory from = send;
      if (!layout.isEven()) {
        from = partsMemory(all);
        copy(send, from);
      }
      DeviceMemory mine = copiesMemory(all);
      collective(allToAllShape(), from, mine);
      if (layout.operation == Operation.REDUCE_SCATTER) {
        combine(mine, recv);
        return;
      }
      DeviceMemory results = layout.isEven() ? recv : partsMemory(all);
      // A part of the receive buffer may lie in a window where other ranks' parts lie in none, and
      // the ranks would gather in different ways.
      DeviceMemory own = layout.isEven() ? partsMemory(part) : results.slice(rank * part, part);
      combine(mine, own);
      collective(gatherShape(layout.operation, root), own, receives() ? results : null);
      if (!layout.isEven() && receives()) {
        copy(results, recv);
      }
    }

    /** Combines the copies of this rank's elements. */
    private void combine(DeviceMemory from, DeviceMemory to) {
      step(nRanks, stride(), elements(), from, to);
    }

    private void copy(DeviceMemory from, DeviceMemory to) {
      step(1, 0, layout.count, from, to);
    }

    private void step(int of, long stride, long elements, DeviceMemory from, DeviceMemory to) {
      if (elements > 0) {
        launcher.launchOther(
            planner.plan(operator, type(), of, stride, elements),
            from,
            to,
            stream,
            CallShape.of(Operation.LOCAL_REDUCTION, type(), RedOp.SUM, 0),
            elements * layout.bytes / type().bytes());
      }
    }

    /** Ranks with different functions make different calls. */
    private void collective(long kind, DeviceMemory from, DeviceMemory to) {
      long of = CallShape.withFunction(kind, CallShape.function(shape));
      long bytes = stride();
      launcher.launchCollective(planner.plan(of, from, to, bytes), from, to, stream, of, bytes);
    }
  }

  /** Returns the bytes of the memory that it holds. Any thread. */
  long bytes() {
    return copies.bytes() + parts.bytes();
  }

  /** Frees the memory, once what uses it has ended. */
  void close() {
    copies.close();
    parts.close();
  }
}
