package org.nccl4j.api.group;

import java.util.Arrays;
import java.util.IdentityHashMap;
import java.util.Locale;
import java.util.Map;
import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.plan.Planner;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.Leases;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.QuantisedWork;
import org.nccl4j.device.kernel.QuantisedWork.Step;
import org.nccl4j.operation.Operation;

/**
 * The all-reduces and reduce-scatters of one rank whose data travel quantised. Each rank quantises
 * its elements into a part for each rank, an all-to-all brings all copies of a part to its owner,
 * which adds them in float32 in the order of the ranks. In an all-reduce the owner quantises the
 * sum and an all-gather brings it to all ranks. Both copies are collectives of bytes, so this works
 * by all algorithms and transports, and the algorithm does not change the result.
 *
 * <p>The parts lie in two memories that all of the rank's quantised sums share. Owner: the thread
 * that is in the launcher.
 */
public final class QuantisedSums {
  /** Launches of a call, at most. */
  static final int MOST_LAUNCHES = 5;

  private static final int PLACE_BITS = 9;

  /** Calls that differ in shape or count. */
  private static final int PLACES = 1 << PLACE_BITS;

  /** Places after its own in which a call may be, so that calls with one place do not collide. */
  private static final int TRIED_PLACES = 16;

  /** Of the host's steps of an all-reduce for each element, as measured; docs/benchmarks. */
  private static final double HOST_NANOS = 9;

  private static final double NANOS_PER_MICRO = 1000;

  /** The steps of a reduce-scatter take this share of the time of those of an all-reduce. */
  private static final double SCATTER_SHARE = 0.6;

  /**
   * Bytes of elements that a GPU's steps of an all-reduce go through in a microsecond, as measured
   * on H100.
   */
  private static final double GPU_BYTES_PER_MICRO = 570_000;

  /** Microseconds of a step of a GPU without elements. */
  private static final double GPU_LAUNCH = 3;

  /** Bytes of an element, its code, its error and its share of a scale, at most. */
  private static final int ELEMENT_BYTES = 16;

  /**
   * Memories of errors for which the steps of a call are kept, at most: a program that leaves such
   * memories open would keep the steps of all.
   */
  private static final int MOST_RESIDUALS = 256;

  /**
   * A quantisation.
   *
   * @param format of the codes: FLOAT8_E4M3 or INT8
   * @param block elements that share a scale
   */
  public record How(DataType format, int block) {}

  private final How how;
  private final int rank;
  private final int nRanks;
  private final Device device;
  private final String where;

  /** By hash of shape and count, or one of the next places where that is taken. */
  private final Call[] calls = new Call[PLACES];

  /** Calls so far. */
  private long uses;

  private final QuantisedMemory memory;
  private Planner planner;
  private Launcher launcher;

  /**
   * The quantised sums of a rank.
   *
   * @param memory between the steps
   */
  QuantisedSums(How how, int rank, int nRanks, Device device, String who, QuantisedMemory memory) {
    this.how = how;
    this.rank = rank;
    this.nRanks = nRanks;
    this.device = device;
    this.where = " on " + who + ": ";
    this.memory = memory;
  }

  /** Sets what plans and launches from now on: before the first call, and after a suspension. */
  void attach(Planner newPlanner, Launcher newLauncher) {
    planner = newPlanner;
    launcher = newLauncher;
  }

  /** The prepared steps of calls of one shape and count. */
  private static final class Call {
    private final long shape;
    private final long count;
    private final QuantisedWork.Parts parts;

    /** Null where the sum is not quantised. */
    private final KernelPlan dequantise;

    /** The steps that errors change, by the memory of the errors; null stands for none. */
    private final Map<DeviceMemory, Feedback> feedbacks = new IdentityHashMap<>();

    private DeviceMemory out;

    /** This rank's part of it. */
    private DeviceMemory own;

    private DeviceMemory in;

    /** That the memory had when it was asked for these. */
    private int changes;

    /** The number of its last use. */
    private long used;

    Call(long shape, long count, QuantisedWork.Parts parts, KernelPlan dequantise) {
      this.shape = shape;
      this.count = count;
      this.parts = parts;
      this.dequantise = dequantise;
    }

    void discard() {
      feedbacks.values().forEach(Feedback::discard);
      if (dequantise != null) {
        dequantise.discard();
      }
    }
  }

  /** The steps of a call with the errors in one memory, or without. */
  private record Feedback(KernelPlan quantise, KernelPlan sum) {
    void discard() {
      quantise.discard();
      sum.discard();
    }
  }

  /** True for an operation whose data travel quantised. */
  @HotPath
  static boolean takes(long shape) {
    Operation operation = CallShape.operation(shape);
    return operation == Operation.ALL_REDUCE || operation == Operation.REDUCE_SCATTER;
  }

  /** Throws for a call that cannot be quantised. */
  @HotPath
  void check(long shape, long count) {
    DataType type = CallShape.type(shape);
    RedOp op = CallShape.op(shape);
    boolean typed = QuantisedWork.Parts.hasType(type);
    if (!typed || op != RedOp.SUM && op != RedOp.AVG) {
      throw new InvalidArgumentException(
          typed ? ErrorId.ARGUMENT : ErrorId.TYPE,
          "a quantised %s%s%s"
              .formatted(
                  CallShape.operation(shape).key(),
                  where,
                  typed ? "the operator is " + op.label() : "elements are " + type.label()),
          typed
              ? "use SUM or AVG, or call it without CallOptions.withQuantisation"
              : "use a floating-point type of 2 or 4 bytes, or call it without"
                  + " CallOptions.withQuantisation");
    }
    long most = Long.MAX_VALUE / ELEMENT_BYTES / nRanks;
    if (count > most) { // of memory whose size its maker has only stated
      throw new InvalidArgumentException(
          ErrorId.COUNT,
          "a quantised %s%s%d elements of %d ranks have more bytes than can be counted"
              .formatted(CallShape.operation(shape).key(), where, count, nRanks),
          "pass 0 to " + most);
    }
  }

  /** Throws for memory that cannot hold the errors of a call. */
  @HotPath
  void checkResidual(DeviceMemory residual, long shape, long count) {
    long elements = elements(shape, count);
    if (residual.device() != device
        || !residual.isOpen()
        || isMisaligned(residual)
        || residual.size() / Float.BYTES < elements) {
      throw new InvalidArgumentException(
          ErrorId.BUFFER,
          "a quantised %s%s%s"
              .formatted(
                  CallShape.operation(shape).key(),
                  where,
                  residual.device() != device
                      ? "the residual belongs to " + residual.device().name()
                      : !residual.isOpen()
                          ? "the residual is closed"
                          : isMisaligned(residual)
                              ? "the residual begins at 0x%x, which is no multiple of %d"
                                  .formatted(residual.address(), Float.BYTES)
                              : "the residual has %d bytes for %d elements of float32"
                                  .formatted(residual.size(), elements)),
          "pass an open memory of %s with 4 bytes for each element of the send buffer"
              .formatted(device.name()));
    }
  }

  /** True for what a GPU's kernels cannot load; processors can. */
  @HotPath
  private boolean isMisaligned(DeviceMemory residual) {
    return (residual.address() & Float.BYTES - 1) != 0 && device.kind() == Device.Kind.CUDA;
  }

  /** Refuses a user's operator. */
  InvalidArgumentException refusal(long shape, String operator) {
    return new InvalidArgumentException(
        ErrorId.ARGUMENT,
        "a quantised %s%sthe operator is %s"
            .formatted(CallShape.operation(shape).key(), where, operator),
        "use SUM or AVG, or call it without CallOptions.withQuantisation");
  }

  @HotPath
  private long elements(long shape, long count) {
    return CallShape.operation(shape) == Operation.ALL_REDUCE ? count : count * nRanks;
  }

  /** Returns the layout of a call's parts. */
  QuantisedWork.Parts parts(long shape, long count) {
    boolean all = CallShape.operation(shape) == Operation.ALL_REDUCE;
    long blocks = (count + how.block() - 1) / how.block();
    return new QuantisedWork.Parts(
        CallShape.type(shape),
        how.format(),
        how.block(),
        CallShape.op(shape) == RedOp.AVG,
        nRanks,
        all ? (blocks + nRanks - 1) / nRanks * how.block() : count,
        elements(shape, count));
  }

  /**
   * Makes what calls of a shape and count need.
   *
   * @param residual float32 for each element of the send buffer, for error feedback; null for none
   */
  void prepare(long shape, DeviceMemory residual, long count) {
    Call call = call(shape, count);
    feedback(call, residual);
    planner.plan(toAll(), call.out, call.in, call.parts.bytes());
    if (call.dequantise != null) {
      planner.plan(gather(), call.own, call.out, call.parts.bytes());
    }
  }

  /** Launches a call that has been checked, as {@link #prepare}; between enter and leave. */
  @HotPath
  void launch(
      long shape,
      DeviceMemory residual,
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DeviceStream stream) {
    Leases.extend(residual, null); // no launch names it
    try {
      Call call = call(shape, count);
      Feedback feedback = feedback(call, residual);
      if (stream.isCapturing()) {
        memory.capture();
      }
      long bytes = call.parts.bytes();
      KernelPlan toAll = planner.plan(toAll(), call.out, call.in, bytes);
      KernelPlan gather =
          call.dequantise == null ? null : planner.plan(gather(), call.own, call.out, bytes);
      long elements = call.parts.count();
      long ofPart = call.parts.elements(rank);
      launcher.launchOther(
          feedback.quantise, send, call.out, stream, step(Operation.QUANTISE, shape), elements);
      launcher.launchCollective(toAll, call.out, call.in, stream, toAll(), bytes);
      if (gather == null) {
        launcher.launchOther(
            feedback.sum, call.in, recv, stream, step(Operation.QUANTISED_SUM, shape), ofPart);
        return;
      }
      launcher.launchOther(
          feedback.sum, call.in, call.own, stream, step(Operation.QUANTISED_SUM, shape), ofPart);
      launcher.launchCollective(gather, call.own, call.out, stream, gather(), bytes);
      launcher.launchOther(
          call.dequantise, call.out, recv, stream, step(Operation.DEQUANTISE, shape), elements);
    } finally {
      Leases.end(residual, null);
    }
  }

  /** The shape of a step of a call on this rank's own memory, for the record. */
  @HotPath
  private static long step(Operation step, long shape) {
    return CallShape.of(step, CallShape.type(shape), CallShape.op(shape), 0);
  }

  @HotPath
  private static long toAll() {
    return CallShape.of(Operation.ALL_TO_ALL, DataType.UINT8, RedOp.SUM, 0);
  }

  @HotPath
  private static long gather() {
    return CallShape.of(Operation.ALL_GATHER, DataType.UINT8, RedOp.SUM, 0);
  }

  /** The steps of calls of a shape and count, with the current memory. */
  @HotPath
  private Call call(long shape, long count) {
    int first = CallShape.place(CallShape.hash(shape, count), PLACE_BITS);
    Call call = find(shape, count, first);
    if (call == null) {
      call = make(shape, count, unused(first));
    }
    call.used = ++uses;
    if (call.changes != memory.changes()) {
      place(call);
    }
    return call;
  }

  /** The call of a shape and count in a place or one of the next; null if there is none. */
  @HotPath
  private Call find(long shape, long count, int first) {
    for (int tried = 0; tried < TRIED_PLACES; tried++) {
      Call known = calls[(first + tried) % PLACES];
      if (known == null || known.count == count && known.shape == shape) {
        return known;
      }
    }
    return null;
  }

  /** The first place from one on that is empty, or the one whose call was used least lately. */
  private int unused(int first) {
    int least = first;
    for (int tried = 0; tried < TRIED_PLACES; tried++) {
      int place = (first + tried) % PLACES;
      if (calls[place] == null) {
        return place;
      }
      if (calls[place].used < calls[least].used) {
        least = place;
      }
    }
    return least;
  }

  private Call make(long shape, long count, int place) {
    QuantisedWork.Parts parts = parts(shape, count);
    boolean all = CallShape.operation(shape) == Operation.ALL_REDUCE;
    Call made =
        new Call(shape, count, parts, all ? planner.plan(Step.DEQUANTISE, parts, null) : null);
    place(made);
    if (calls[place] != null) {
      calls[place].discard();
    }
    calls[place] = made;
    return made;
  }

  /** Gives a call its parts of the memory. */
  private void place(Call call) {
    long part = call.parts.bytes();
    long bytes = part * nRanks;
    call.out = memory.out(bytes);
    call.in = memory.in(bytes);
    call.own = call.out.slice(rank * part, part);
    call.changes = memory.changes();
  }

  @HotPath
  private Feedback feedback(Call call, DeviceMemory residual) {
    Feedback known = call.feedbacks.get(residual);
    return known != null ? known : make(call, residual);
  }

  private Feedback make(Call call, DeviceMemory residual) {
    Feedback made =
        new Feedback(
            planner.plan(Step.QUANTISE, call.parts, residual),
            call.dequantise == null
                ? planner.plan(Step.SUM, call.parts, null)
                : planner.plan(Step.SUM_AND_QUANTISE, call.parts, residual));
    discardOfClosed(call.feedbacks);
    call.feedbacks.put(residual, made);
    return made;
  }

  /** Discards the steps with errors whose memory is closed; of too many those of all errors. */
  private static void discardOfClosed(Map<DeviceMemory, Feedback> feedbacks) {
    boolean all = feedbacks.size() > MOST_RESIDUALS;
    feedbacks
        .entrySet()
        .removeIf(
            entry -> {
              DeviceMemory residual = entry.getKey();
              boolean over = residual != null && (all || !residual.isOpen());
              if (over) {
                entry.getValue().discard();
              }
              return over;
            });
  }

  /**
   * Frees the memory, once what was launched with it has ended, and forgets the plans, whose
   * kernels are no more. Later calls make them anew.
   */
  void close() {
    Arrays.fill(calls, null);
    memory.close();
  }

  /** Returns the bytes of its memory, which is that of all the rank's quantised sums. */
  long bytes() {
    return memory.bytes();
  }

  /** Returns the predicted microseconds of a call. */
  double predict(long shape, long count) {
    return times(shape, count).sum();
  }

  /**
   * Predicted microseconds of a call.
   *
   * @param toAll of the all-to-all
   * @param gather of the all-gather; 0 where there is none
   * @param own of the rank's own steps
   */
  private record Times(double toAll, double gather, double own) {
    double sum() {
      return toAll + gather + own;
    }
  }

  private Times times(long shape, long count) {
    long bytes = parts(shape, count).bytes();
    boolean all = CallShape.operation(shape) == Operation.ALL_REDUCE;
    long own = elements(shape, count);
    double passes = all ? 1 : SCATTER_SHARE;
    return new Times(
        planner.predict(toAll(), bytes),
        all ? planner.predict(gather(), bytes) : 0,
        device.kind() == Device.Kind.HOST
            ? passes * own * HOST_NANOS / NANOS_PER_MICRO
            : passes * own * CallShape.type(shape).bytes() / GPU_BYTES_PER_MICRO
                + (all ? 2 + 1 : 2) * GPU_LAUNCH);
  }

  /** Returns the bytes and predicted time beside those of the plain operation, as lines to read. */
  String explain(Operation operation, long count, DataType type) {
    long shape = CallShape.of(operation, type, RedOp.SUM, 0);
    check(shape, count);
    Times times = times(shape, count);
    double plain = planner.predict(shape, count);
    boolean all = operation == Operation.ALL_REDUCE;
    long others = nRanks - 1L;
    long sent = (all ? 2 : 1) * others * parts(shape, count).bytes();
    long plainSent = (all ? 2 * others * count / nRanks : others * count) * type.bytes();
    return String.format(
        Locale.ROOT,
        "%s quantised as %s with a scale for every %d elements: %d bytes from each rank, %d"
            + " without%n  all-to-all %.2f us%s, own steps %.2f us, together %.2f us as predicted;"
            + " without %.2f us%n  %s%n",
        operation.key(),
        how.format().label(),
        how.block(),
        sent,
        plainSent,
        times.toAll,
        all ? String.format(Locale.ROOT, ", all-gather %.2f us", times.gather) : "",
        times.own,
        times.sum(),
        plain,
        times.sum() < plain
            ? "it pays"
            : "it does not pay: call it without CallOptions.withQuantisation");
  }
}
