package org.nccl4j.api.group;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.plan.Planner.Placement;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.OrderMismatchException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.CallText;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelDevice;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.PinnedMemory;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Compares the ranks' calls before each collective: an all-gather of the calls runs in the same
 * stream, and the first call that differs from rank 0's fails the communicator with an error that
 * names both; the buffers' positions in windows are part of the call. For debugging
 * (NCCL_CHECK_MODE=DEBUG_GLOBAL): it costs an all-gather for each call.
 *
 * <p>The all-gather has the same form in every communicator, so that if communicators share
 * connections, calls of two of them in different orders meet and are distinguished by their
 * numbers. If they share only streams, the recorder has the order in which they wait.
 *
 * <p>The comparison runs as a host function of the stream, in which a GPU's driver allows no driver
 * calls; so the calls lie in reused memory that host and device both see. Launched by one thread at
 * a time.
 */
public final class CallConsistencyCheck {
  /** Begins what a rank has said; there is something else where a gather came to no end. */
  private static final long SAID = 0x6e63636c346a6f70L;

  private static final int LONGS = 13;
  private static final int COMMUNICATOR = 11 * 8;
  private static final int FUNCTION = 12 * 8;
  private static final int PLACEMENT = 6 * 8;
  private static final int NAME_BYTES = 64;
  private static final int COMMUNICATOR_NAME = LONGS * 8;
  private static final int OPERATOR_NAME = COMMUNICATOR_NAME + NAME_BYTES;
  private static final int BYTES = OPERATOR_NAME + NAME_BYTES;

  private final String name;
  private final long communicator;
  private final KernelCommunicator kernels;
  private final Launcher launcher;
  private final KernelDevice device;
  private final int nRanks;
  private KernelPlan gather;

  /** All that were made, and those not in use. Guarded by this. */
  private final List<Memory> memories = new ArrayList<>();

  private final List<Memory> free = new ArrayList<>();
  private boolean closed;

  /** Collectives whose comparison was launched. Owned by the thread that launches. */
  private long launched;

  /** One call of this rank, and those of all. */
  private record Memory(PinnedMemory mine, PinnedMemory all) {
    void close() {
      mine.close();
      all.close();
    }
  }

  /**
   * A check of one rank's calls.
   *
   * @param name for messages
   * @param communicator a number that its ranks have in common, and no other communicator has
   */
  public CallConsistencyCheck(
      String name,
      long communicator,
      KernelCommunicator kernels,
      Launcher launcher,
      KernelDevice device,
      int nRanks) {
    this.name = name;
    this.communicator = communicator;
    this.kernels = kernels;
    this.launcher = launcher;
    this.device = device;
    this.nRanks = nRanks;
  }

  /**
   * Launches the comparison of a call.
   *
   * @param shape as {@link CallShape} has it
   * @param placement where its buffers lie in windows
   */
  void launch(long shape, long count, Placement placement, DeviceStream stream) {
    launch(shape, null, count, placement, stream);
  }

  /**
   * Launches the comparison of a call.
   *
   * @param operator the call's own; null for one of {@link RedOp}
   */
  void launch(
      long shape,
      ReductionOperator operator,
      long count,
      Placement placement,
      DeviceStream stream) {
    if (CallShape.operation(shape).isP2p() || nRanks == 1) {
      return;
    }
    if (gather == null) {
      gather =
          kernels.prepare(
              new CollectiveWork(
                  Operation.ALL_GATHER,
                  Algorithm.ONE_SHOT,
                  Protocol.SIMPLE,
                  DataType.INT8,
                  RedOp.SUM,
                  0,
                  BYTES,
                  1,
                  BYTES));
    }
    ByteBuffer call = ByteBuffer.allocate(BYTES).order(ByteOrder.nativeOrder());
    call.putLong(SAID).putLong(CallShape.operation(shape).ordinal()).putLong(count);
    call.putLong(CallShape.type(shape).ordinal()).putLong(CallShape.op(shape).ordinal());
    call.putLong(CallShape.root(shape)).putLong(placement.way());
    call.putLong(placement.send()).putLong(placement.sendOffset());
    call.putLong(placement.recv()).putLong(placement.recvOffset()).putLong(communicator);
    call.putLong(CallShape.function(shape));
    putName(call, COMMUNICATOR_NAME, name);
    putName(call, OPERATOR_NAME, operator == null ? "" : operator.name());
    Memory memory = take();
    memory.mine.put(call.array());
    memory.all.put(new byte[nRanks * BYTES]);
    launcher.waitsInOrder(stream);
    launcher.launchOther(
        gather, memory.mine.memory(), memory.all.memory(), stream, Launcher.UNNAMED, 0);
    boolean keeps = stream.isCapturing(); // its graph uses the memory in each launch
    long number = ++launched;
    stream.launchHostFunction(() -> ended(memory, keeps, number));
  }

  /** Puts the last bytes of a name. */
  private static void putName(ByteBuffer call, int at, String name) {
    byte[] letters = name.getBytes(StandardCharsets.UTF_8);
    int length = Math.min(NAME_BYTES, letters.length);
    call.position(at).put(letters, letters.length - length, length);
  }

  private synchronized Memory take() {
    if (!free.isEmpty()) {
      return free.remove(free.size() - 1);
    }
    PinnedMemory mine = device.hostVisible(BYTES);
    Memory made = new Memory(mine, device.hostVisible((long) nRanks * BYTES));
    memories.add(made);
    return made;
  }

  /**
   * All ranks have called, or the communicator has failed.
   *
   * @param keeps whether the memory stays in use
   * @param number of the call among the communicator's collectives
   */
  private void ended(Memory memory, boolean keeps, long number) {
    launcher.metInOrder();
    ByteBuffer calls;
    synchronized (this) {
      if (closed) {
        return;
      }
      calls = ByteBuffer.wrap(memory.all.get()).order(ByteOrder.nativeOrder());
      if (!keeps) {
        free.add(memory);
      }
    }
    if (kernels.failure() != null) {
      return;
    }
    for (int rank = 0; rank < nRanks; rank++) {
      if (calls.getLong(rank * BYTES) != SAID) {
        throw failed(silent(rank));
      }
    }
    for (int rank = 1; rank < nRanks; rank++) {
      if (!describe(calls, rank).equals(describe(calls, 0))
          || !place(calls, rank).equals(place(calls, 0))
          || communicator(calls, rank) != communicator(calls, 0)) {
        throw failed(mismatch(calls, rank, number));
      }
    }
  }

  private NcclException failed(NcclException error) {
    kernels.abort(error);
    return error;
  }

  /** All have come to the gather, and what came from a rank is no call. */
  private NcclException silent(int rank) {
    return new InvalidUsageException(
        ErrorId.CALLS_DIFFER,
        "rank %d of communicator %s does not report its call".formatted(rank, name),
        "set NCCL_CHECK_MODE=DEBUG_GLOBAL on all ranks or on none, and make the same calls in the"
            + " same order on all ranks");
  }

  private NcclException mismatch(ByteBuffer calls, int rank, long number) {
    String first = describe(calls, 0);
    String other = describe(calls, rank);
    if (communicator(calls, 0) != communicator(calls, rank)) {
      return new OrderMismatchException(
          ("the ranks use communicators that share connections in different orders: in"
                  + " communicator %s rank 0 calls %s of communicator %s where rank %d calls %s of"
                  + " communicator %s")
              .formatted(
                  name,
                  first,
                  name(calls, 0, COMMUNICATOR_NAME),
                  rank,
                  other,
                  name(calls, rank, COMMUNICATOR_NAME)),
          "make the calls in the same order on all ranks, or split with connections of their own"
              + " (CommunicatorConfig.withSplitShare(false))");
    }
    if (first.equals(other)) {
      return new InvalidUsageException(
          ErrorId.CALLS_DIFFER,
          "the buffers of %s are placed differently: rank 0 runs it %s, rank %d %s"
              .formatted(first, place(calls, 0), rank, place(calls, rank)),
          "register the buffers of an operation on all ranks or on none, and pass them at the same"
              + " offsets of their windows");
    }
    return new InvalidUsageException(
        ErrorId.CALLS_DIFFER,
        ("the ranks of communicator %s make different calls: as collective %d rank 0 calls %s and"
                + " rank %d calls %s")
            .formatted(name, number, first, rank, other),
        "make the same calls in the same order on all ranks");
  }

  private static long communicator(ByteBuffer calls, int rank) {
    return calls.getLong(rank * BYTES + COMMUNICATOR);
  }

  private static String name(ByteBuffer calls, int rank, int at) {
    byte[] letters = new byte[NAME_BYTES];
    calls.get(rank * BYTES + at, letters);
    return new String(letters, StandardCharsets.UTF_8).trim();
  }

  /** Returns the algorithm of a rank's call and the positions of its buffers. */
  private static String place(ByteBuffer calls, int rank) {
    int at = rank * BYTES + PLACEMENT;
    int way = (int) calls.getLong(at);
    if (way < 0) {
      return "without windows";
    }
    return "by "
        + Algorithm.values()[way].label()
        + place("sends", calls.getLong(at + 8), calls.getLong(at + 16))
        + place("receives", calls.getLong(at + 24), calls.getLong(at + 32));
  }

  private static String place(String what, long window, long offset) {
    return window == 0 ? "" : ", %s at byte %d of window %d".formatted(what, offset, window);
  }

  private static String describe(ByteBuffer calls, int rank) {
    int at = rank * BYTES + 8;
    return CallText.of(
        Operation.values()[(int) calls.getLong(at)],
        calls.getLong(at + 8),
        DataType.values()[(int) calls.getLong(at + 16)],
        operator(calls, rank, RedOp.values()[(int) calls.getLong(at + 24)]),
        (int) calls.getLong(at + 32),
        /* function= */ 0);
  }

  /** Returns a rank's operator, which may be its own. */
  private static String operator(ByteBuffer calls, int rank, RedOp op) {
    String own = name(calls, rank, OPERATOR_NAME);
    long function = calls.getLong(rank * BYTES + FUNCTION);
    return own.isEmpty()
        ? op.label()
        : function == 0 ? own : "%s, function %04x".formatted(own, function);
  }

  /** The communicator is closed; none of its kernels runs. */
  synchronized void close() {
    if (!closed) {
      closed = true;
      memories.forEach(Memory::close);
    }
  }
}
