package org.nccl4j.device.cuda.copy;

import java.util.List;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.plan.CommunicatorMemory;
import org.nccl4j.device.cuda.plan.CudaKernelPlan;
import org.nccl4j.device.cuda.plan.KernelLayout;
import org.nccl4j.device.cuda.plan.PlanContext;
import org.nccl4j.device.cuda.stream.GpuStream;
import org.nccl4j.device.kernel.P2pWork;

/**
 * Messages to one rank, or from it, by copy engines through the Simple slots of the connection.
 * Owned by the thread that launches.
 */
final class CopyEngineChannel {
  /** The owners of the step counts: nccl4jCopies. */
  private static final int SENT = 0;

  private static final int KNOWN_TAKEN = 1;
  private static final int RECEIVED = 2;
  private static final int TOLD_TAKEN = 3;

  private static final int FOR_DATA = 0; // failedKind
  private static final int FOR_CREDIT = 1;

  private final PlanContext owner;
  private final CommunicatorMemory memory;
  private final Connection connection;
  private final boolean sends;
  private final List<P2pWork> works;
  private final long slots;
  private final long half;
  private final CopyEngineChunks pieces;

  /**
   * Plans that tell the other rank of copies, by number of copies. Null where the number is unused.
   */
  private final CudaKernelPlan[] telling = new CudaKernelPlan[CopyEngineChunks.MOST + 1];

  private final CudaKernelPlan[] awaiting = new CudaKernelPlan[CopyEngineChunks.MOST + 1];

  /**
   * A lane.
   *
   * @param works messages with one rank in one direction, in their order; none is empty
   */
  CopyEngineChannel(
      PlanContext owner,
      CommunicatorMemory memory,
      Connection connection,
      ConnectionLayout layout,
      List<P2pWork> works) {
    this.owner = owner;
    this.memory = memory;
    this.connection = connection;
    this.works = works;
    sends = works.get(0).kind() == P2pWork.Kind.SEND;
    slots = connection.data().address() + layout.simple(0);
    half = (long) ConnectionLayout.STEPS * layout.simpleSlotBytes() / CopyEngineChunks.HALVES;
    pieces = CopyEngineChunks.of(sends, works.stream().mapToLong(P2pWork::bytes).toArray(), half);
    prepare(telling, false, pieces.begins());
    for (CopyEngineChunks.Piece piece : pieces.all()) {
      prepare(awaiting, true, piece.awaited());
      prepare(telling, false, piece.told());
    }
    prepare(awaiting, true, pieces.ends());
  }

  private void prepare(CudaKernelPlan[] plans, boolean waits, int number) {
    if (number > 0 && plans[number] == null) {
      plans[number] = plan(waits, number);
    }
  }

  private CudaKernelPlan plan(boolean waits, int number) {
    boolean data = sends != waits; // true: count in the data side; false: credit side
    int counter = sends ? (waits ? KNOWN_TAKEN : SENT) : (waits ? RECEIVED : TOLD_TAKEN);
    int peer = works.get(0).peer();
    long word = (data ? connection.data() : connection.credit()).address() + KernelLayout.COPIES;
    long counts = memory.steps(peer) + (long) counter * KernelLayout.STEPS_BYTES;
    Offheap arguments = owner.offheap().take(KernelLayout.COPY_BYTES);
    memory.putCommunicator(arguments);
    arguments
        .putLong(KernelLayout.COPY_WORD, word)
        .putLong(KernelLayout.COPY_COUNTER, counts + KernelLayout.STEPS_COPIES)
        .putLong(KernelLayout.COPY_NUMBER, number)
        .putInt(KernelLayout.COPY_PEER, peer)
        .putInt(KernelLayout.COPY_KIND, data ? FOR_DATA : FOR_CREDIT);
    return new CudaKernelPlan(
        owner,
        arguments,
        owner.kernels().copies(waits),
        new CudaKernelPlan.Shape(1, 1, 0),
        new CudaKernelPlan.Needs(0, 0));
  }

  boolean sends() {
    return sends;
  }

  /** In each but the last is a piece; in that, what is awaited in the end. */
  int rounds() {
    return pieces.all().size() + 1;
  }

  /** Before all lanes' rounds: the first messages must not be queued behind waits. */
  void begin(GpuStream stream) {
    put(telling[pieces.begins()], stream);
  }

  /**
   * Puts a round into a stream.
   *
   * @param base of the launch's own buffer of this direction
   */
  void launch(int round, long base, GpuStream stream) {
    if (round == pieces.all().size()) {
      put(awaiting[pieces.ends()], stream);
      return;
    }
    CopyEngineChunks.Piece piece = pieces.all().get(round);
    P2pWork work = works.get(piece.message());
    long start = work.buffer() == null ? base : work.buffer().address();
    long user = start + work.offset() + piece.at();
    long slot = slots + piece.half() * half;
    put(awaiting[piece.awaited()], stream);
    DriverLibrary.copyAsync(
        sends ? slot : user, sends ? user : slot, piece.bytes(), stream.handle(), owner.gpu());
    put(telling[piece.told()], stream);
  }

  /** No round is launched any more. */
  void discard() {
    discard(telling);
    discard(awaiting);
  }

  private static void discard(CudaKernelPlan[] plans) {
    for (CudaKernelPlan plan : plans) {
      if (plan != null) {
        plan.discard();
      }
    }
  }

  private static void put(CudaKernelPlan plan, GpuStream stream) {
    if (plan != null) {
      plan.launch(0, 0, stream);
    }
  }
}
