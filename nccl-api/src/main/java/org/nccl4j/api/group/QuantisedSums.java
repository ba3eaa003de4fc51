package org.nccl4j.api.group;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Supplier;
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
import org.nccl4j.device.kernel.QuantisedWork.Copies;
import org.nccl4j.device.kernel.QuantisedWork.Exchange;
import org.nccl4j.device.kernel.QuantisedWork.Step;
import org.nccl4j.operation.Operation;

/**
 * The all-reduces and reduce-scatters of one rank whose data travel quantised. Each rank quantises
 * its elements into a part for each rank, an all-to-all brings all copies of a part to its owner,
 * which adds them in float32 in the order of the ranks. In an all-reduce the owner quantises the
 * sum and an all-gather brings it to all ranks. Both copies are collectives of bytes, so this works
 * by all algorithms and transports, and these do not change the result. Among hosts with as many
 * ranks each they may go by {@link HierarchicalSum} instead, which gives other bits.
 *
 * <p>Parts and copies lie in two memories that all of the rank's quantised sums share. Owner: the
 * thread that is in the launcher.
 */
public final class QuantisedSums {
  /** Launches of a call, at most. */
  static final int MOST_LAUNCHES = 6;

  private static final int PLACE_BITS = 9;

  /** Calls that differ in shape or count. */
  private static final int PLACES = 1 << PLACE_BITS;

  /** Places after its own in which a call may be, so that calls with one place do not collide. */
  private static final int TRIED_PLACES = 16;

  /** Bytes of an element, its code, its error and its share of a scale, at most. */
  private static final int ELEMENT_BYTES = 16;

  /**
   * Memories of errors for which the steps of a call are kept, at most: a program that leaves such
   * memories open would keep the steps of all.
   */
  private static final int MOST_RESIDUALS = 256;

  /** Calls after which steps with errors in closed memory are forgotten, a power of two. */
  private static final int CALLS_OF_CLOSED = 1024;

  /**
   * A quantisation.
   *
   * @param format of the codes: FLOAT8_E4M3 or INT8
   * @param block elements that share a scale
   */
  public record How(DataType format, int block) {}

  private final int rank;
  private final int nRanks;
  private final Device device;
  private final String where;

  /** By hash of shape and count, or one of the next places where that is taken. */
  private final Call[] calls = new Call[PLACES];

  /** Calls so far. */
  private long uses;

  /** Plans of a call or of its errors that are being made, to be discarded if that fails. */
  private final List<KernelPlan> unfinished = new ArrayList<>();

  private final QuantisedMemory memory;
  private final QuantisedWays ways;
  private Planner planner;
  private Launcher launcher;

  /**
   * The quantised sums of a rank.
   *
   * @param memory between the steps
   */
  QuantisedSums(How how, int rank, int nRanks, Device device, String who, QuantisedMemory memory) {
    this.rank = rank;
    this.nRanks = nRanks;
    this.device = device;
    this.where = " on " + who + ": ";
    this.memory = memory;
    this.ways = new QuantisedWays(how, rank, nRanks);
  }

  /** Sets what plans and launches from now on: before the first call, and after a suspension. */
  void attach(Planner newPlanner, Launcher newLauncher) {
    planner = newPlanner;
    launcher = newLauncher;
    ways.attach(newPlanner);
  }

  /** The prepared steps of calls of one shape and count. */
  private static final class Call {
    private final long shape;
    private final long count;
    private final QuantisedWork.Parts parts;

    /** The shapes of the exchanges of parts, those of the sum too. */
    private final long toAll;

    private final long gather;

    /** The exchanges of the hierarchical way; null where all ranks exchange with all. */
    private final Exchanges exchanges;

    /** Null where the sum is not quantised. */
    private final KernelPlan dequantise;

    /** The steps that errors change, for each memory of errors and for none. */
    private final List<Feedback> feedbacks = new ArrayList<>();

    private DeviceMemory out;

    /** The parts of it that this rank makes of its own elements, or of its share. */
    private DeviceMemory made;

    /** This rank's part of it. */
    private DeviceMemory own;

    /** Copies of this rank's part. */
    private DeviceMemory in;

    /** Copies of the elements of this rank's share, where the parts come later; else null. */
    private DeviceMemory copies;

    /** That the memory had when it was asked for these. */
    private int changes;

    /** The number of its last use. */
    private long used;

    Call(
        long shape,
        long count,
        QuantisedWork.Parts parts,
        Exchanges exchanges,
        KernelPlan dequantise) {
      this.shape = shape;
      this.count = count;
      this.parts = parts;
      int mark = ofParts(shape, exchanges != null).mark();
      this.toAll = exchange(Operation.ALL_TO_ALL, mark);
      this.gather = exchange(Operation.ALL_GATHER, mark);
      this.exchanges = exchanges;
      this.dequantise = dequantise;
    }

    void discard() {
      feedbacks.forEach(Feedback::discard);
      if (exchanges != null) {
        exchanges.discard();
      }
      if (dequantise != null) {
        dequantise.discard();
      }
    }
  }

  /**
   * The exchanges of a call that goes hierarchically.
   *
   * @param copies the shape of the exchange of copies with the owners
   * @param ownerBytes that a rank sends to each owner of its host, at most
   * @param elements of this rank's share
   * @param ofSum elements of this rank's part of the sum
   * @param toAll null for a reduce-scatter
   */
  private record Exchanges(
      HierarchicalSum way,
      long copies,
      long ownerBytes,
      long elements,
      long ofSum,
      KernelPlan toOwners,
      KernelPlan betweenHosts,
      KernelPlan toAll) {
    void discard() {
      toOwners.discard();
      betweenHosts.discard();
      if (toAll != null) {
        toAll.discard();
      }
    }
  }

  /** The steps of a call with the errors in one memory, or without. */
  private static final class Feedback {
    /** Null for none. */
    private final DeviceMemory residual;

    private final KernelPlan quantise;
    private final KernelPlan sum;

    /** The number of the call that used it last. */
    private long used;

    Feedback(DeviceMemory residual, KernelPlan quantise, KernelPlan sum) {
      this.residual = residual;
      this.quantise = quantise;
      this.sum = sum;
    }

    /** True if its steps keep the errors in these bytes, which another object may stand for. */
    @HotPath
    boolean isFor(DeviceMemory other) {
      return residual == null || other == null
          ? residual == null && other == null
          : residual.isSameAs(other);
    }

    @HotPath
    boolean isClosed() {
      return residual != null && !residual.isOpen();
    }

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

  /**
   * Makes what calls of a shape and count need.
   *
   * @param residual float32 for each element of the send buffer, for error feedback; null for none
   */
  void prepare(long shape, DeviceMemory residual, long count) {
    Call call = call(shape, count);
    feedback(call, residual);
    if (call.exchanges != null) {
      return;
    }
    planner.plan(call.toAll, call.out, call.in, call.parts.bytes());
    if (call.dequantise != null) {
      planner.plan(call.gather, call.own, call.out, call.parts.bytes());
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
      if (call.exchanges == null) {
        launch(call, feedback, send, recv, stream);
      } else {
        launchHierarchically(call, feedback, send, recv, stream);
      }
    } finally {
      Leases.end(residual, null);
    }
  }

  @HotPath
  private void launch(
      Call call, Feedback feedback, DeviceMemory send, DeviceMemory recv, DeviceStream stream) {
    long shape = call.shape;
    long bytes = call.parts.bytes();
    KernelPlan toAll = planner.plan(call.toAll, call.out, call.in, bytes);
    KernelPlan gather =
        call.dequantise == null ? null : planner.plan(call.gather, call.own, call.out, bytes);
    long elements = call.parts.count();
    long ofPart = call.parts.elements(rank);
    launcher.launchOther(
        feedback.quantise, send, call.out, stream, step(Operation.QUANTISE, shape), elements);
    launcher.launchCollective(toAll, call.out, call.in, stream, call.toAll, bytes);
    if (gather == null) {
      launcher.launchOther(
          feedback.sum, call.in, recv, stream, step(Operation.QUANTISED_SUM, shape), ofPart);
      return;
    }
    launcher.launchOther(
        feedback.sum, call.in, call.own, stream, step(Operation.QUANTISED_SUM, shape), ofPart);
    launcher.launchCollective(gather, call.own, call.out, stream, call.gather, bytes);
    launcher.launchOther(
        call.dequantise, call.out, recv, stream, step(Operation.DEQUANTISE, shape), elements);
  }

  @HotPath
  private void launchHierarchically(
      Call call, Feedback feedback, DeviceMemory send, DeviceMemory recv, DeviceStream stream) {
    long shape = call.shape;
    long bytes = call.parts.bytes();
    Exchanges by = call.exchanges;
    launcher.launchCollective(by.toOwners, send, call.copies, stream, by.copies, by.ownerBytes);
    launcher.launchOther(
        feedback.quantise,
        call.copies,
        call.made,
        stream,
        step(Operation.QUANTISE, shape),
        by.elements);
    launcher.launchCollective(by.betweenHosts, call.made, call.in, stream, call.toAll, bytes);
    launcher.launchOther(
        feedback.sum,
        call.in,
        by.toAll == null ? recv : call.own,
        stream,
        step(Operation.QUANTISED_SUM, shape),
        by.ofSum);
    if (by.toAll != null) {
      launcher.launchCollective(by.toAll, call.out, call.out, stream, call.gather, bytes);
      launcher.launchOther(
          call.dequantise,
          call.out,
          recv,
          stream,
          step(Operation.DEQUANTISE, shape),
          call.parts.count());
    }
  }

  /** The shape of a step of a call on this rank's own memory, for the record. */
  @HotPath
  private static long step(Operation step, long shape) {
    return CallShape.of(step, CallShape.type(shape), CallShape.op(shape), 0);
  }

  /** The shape of an exchange of bytes with a mark, which all ranks need to have. */
  private static long exchange(Operation by, int mark) {
    return CallShape.withFunction(CallShape.of(by, DataType.UINT8, RedOp.SUM, 0), mark);
  }

  private static Exchange ofParts(long shape, boolean hierarchical) {
    boolean all = CallShape.operation(shape) == Operation.ALL_REDUCE;
    return hierarchical
        ? all ? Exchange.PARTS_OF_ALL_REDUCE : Exchange.PARTS_OF_REDUCE_SCATTER
        : all ? Exchange.ALL_REDUCE : Exchange.REDUCE_SCATTER;
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
    if ((uses & CALLS_OF_CLOSED - 1) == 0) {
      forgetClosed();
    }
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

  /** The first place from one on that is empty, or the one whose call was least recently used. */
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
    QuantisedWork.Parts parts = ways.parts(shape, count);
    boolean all = CallShape.operation(shape) == Operation.ALL_REDUCE;
    HierarchicalSum way = ways.way(shape, count);
    Call made =
        whole(
            () -> {
              Exchanges exchanges = way == null ? null : exchanges(way);
              KernelPlan last = all ? plan(Step.DEQUANTISE, parts, rank, Copies.ONE, null) : null;
              Call call = new Call(shape, count, parts, exchanges, last);
              place(call);
              return call;
            });
    if (calls[place] != null) {
      calls[place].discard();
    }
    calls[place] = made;
    return made;
  }

  /** Makes an object whose plans are discarded if one of them, or its memory, cannot be made. */
  private <T> T whole(Supplier<T> make) {
    try {
      return make.get();
    } catch (RuntimeException | Error e) {
      unfinished.forEach(KernelPlan::discard);
      throw e;
    } finally {
      unfinished.clear();
    }
  }

  private KernelPlan keep(KernelPlan made) {
    unfinished.add(made);
    return made;
  }

  private Exchanges exchanges(HierarchicalSum way) {
    QuantisedWork.Parts own = way.parts();
    boolean all = !way.scatters();
    int ofCopies = (all ? Exchange.COPIES_OF_ALL_REDUCE : Exchange.COPIES_OF_REDUCE_SCATTER).mark();
    int ofParts = (all ? Exchange.PARTS_OF_ALL_REDUCE : Exchange.PARTS_OF_REDUCE_SCATTER).mark();
    long copies = exchange(Operation.ALL_TO_ALL, ofCopies);
    return new Exchanges(
        way,
        copies,
        way.copies().stride(),
        own.count(),
        own.elements(way.grid().host()),
        plan(copies, way, List.of(way.toOwners())),
        plan(exchange(Operation.ALL_TO_ALL, ofParts), way, List.of(way.betweenHosts())),
        all ? plan(exchange(Operation.ALL_GATHER, ofParts), way, way.toAll()) : null);
  }

  private KernelPlan plan(long shape, HierarchicalSum way, List<List<Planner.Message>> steps) {
    return keep(planner.plan(shape, way.whole().bytes(), steps, way.mostMessages()));
  }

  private KernelPlan plan(
      Step step, QuantisedWork.Parts parts, int index, Copies copies, DeviceMemory residual) {
    return keep(planner.plan(step, parts, index, copies, residual));
  }

  /** Gives a call its parts of the memory. */
  private void place(Call call) {
    long part = call.parts.bytes();
    if (call.exchanges == null) {
      call.out = memory.out(part * nRanks);
      call.made = call.out;
      call.own = call.out.slice(rank * part, part);
      call.in = memory.in(part * nRanks);
    } else {
      HierarchicalSum way = call.exchanges.way;
      DeviceMemory in = memory.in(Math.max(way.copyBytes(), way.shareBytes()));
      call.out = memory.out(way.outBytes());
      call.made = call.out.slice(way.firstPart(), way.shareBytes());
      call.own = call.made.slice(way.grid().host() * part, part);
      call.in = in.slice(0, way.shareBytes());
      call.copies = in.slice(0, way.copyBytes());
    }
    call.changes = memory.changes();
  }

  @HotPath
  private Feedback feedback(Call call, DeviceMemory residual) {
    Feedback known = find(call.feedbacks, residual);
    Feedback found = known != null ? known : make(call, residual);
    found.used = uses;
    return found;
  }

  @HotPath
  private static Feedback find(List<Feedback> feedbacks, DeviceMemory residual) {
    for (int f = 0; f < feedbacks.size(); f++) {
      Feedback known = feedbacks.get(f);
      if (known.isFor(residual)) {
        return known;
      }
    }
    return null;
  }

  private Feedback make(Call call, DeviceMemory residual) {
    Feedback made =
        whole(
            () ->
                call.exchanges == null
                    ? steps(call, call.parts, rank, Copies.ONE, residual, residual)
                    : steps(call, call.exchanges.way, residual));
    forgetClosed(call.feedbacks);
    if (call.feedbacks.size() > MOST_RESIDUALS) {
      forget(call.feedbacks, leastRecent(call.feedbacks));
    }
    call.feedbacks.add(made);
    return made;
  }

  private Feedback steps(Call call, HierarchicalSum way, DeviceMemory residual) {
    QuantisedWork.Parts own = way.parts();
    DeviceMemory errors =
        residual == null
            ? null
            : residual.slice(way.firstError() * Float.BYTES, own.count() * Float.BYTES);
    return steps(call, own, way.grid().host(), way.copies(), residual, errors);
  }

  /**
   * The steps that make parts and add one of them.
   *
   * @param index of the part that is added
   * @param errors the part of the residual that has those of the parts
   */
  private Feedback steps(
      Call call,
      QuantisedWork.Parts parts,
      int index,
      Copies copies,
      DeviceMemory residual,
      DeviceMemory errors) {
    return new Feedback(
        residual,
        plan(Step.QUANTISE, parts, index, copies, errors),
        call.dequantise == null
            ? plan(Step.SUM, parts, index, Copies.ONE, null)
            : plan(Step.SUM_AND_QUANTISE, parts, index, Copies.ONE, errors));
  }

  /** Forgets the steps of all calls with errors whose memory is closed. */
  @HotPath
  private void forgetClosed() {
    for (Call call : calls) {
      if (call != null) {
        forgetClosed(call.feedbacks);
      }
    }
  }

  @HotPath
  private static void forgetClosed(List<Feedback> feedbacks) {
    for (int f = feedbacks.size() - 1; f >= 0; f--) {
      if (feedbacks.get(f).isClosed()) {
        forget(feedbacks, f);
      }
    }
  }

  @HotPath
  private static void forget(List<Feedback> feedbacks, int which) {
    feedbacks.get(which).discard();
    feedbacks.remove(which);
  }

  private static int leastRecent(List<Feedback> feedbacks) {
    int least = 0;
    for (int f = 1; f < feedbacks.size(); f++) {
      if (feedbacks.get(f).used < feedbacks.get(least).used) {
        least = f;
      }
    }
    return least;
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
    return ways.predict(shape, count);
  }

  /** Returns the bytes and predicted time beside those of the plain operation, as lines to read. */
  String explain(Operation operation, long count, DataType type) {
    check(CallShape.of(operation, type, RedOp.SUM, 0), count);
    return ways.explain(operation, count, type);
  }
}
