package org.nccl4j.device.host.kernel.algorithm;

import java.util.List;
import java.util.stream.IntStream;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.host.kernel.nvls.NvlsEnds;
import org.nccl4j.device.host.kernel.protocol.BufferCopies;
import org.nccl4j.device.host.kernel.protocol.Call;
import org.nccl4j.device.host.kernel.protocol.Chunking;
import org.nccl4j.device.host.kernel.protocol.ConnectionTable;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.LlPrimitives;
import org.nccl4j.device.host.kernel.protocol.Primitives;
import org.nccl4j.device.host.kernel.protocol.RecvEnd;
import org.nccl4j.device.host.kernel.protocol.SendEnd;
import org.nccl4j.device.host.kernel.protocol.SlotPrimitives;
import org.nccl4j.device.host.kernel.protocol.SpinWait;
import org.nccl4j.device.host.memory.CacheShare;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.reduce.Reduction;
import org.nccl4j.device.host.reduce.Reductions;
import org.nccl4j.device.kernel.CallSignature;
import org.nccl4j.device.kernel.CallText;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * A communicator's place, connections, memory and reductions, from which its kernels are made.
 * Owned by the communicator; kernels may be made on any thread.
 */
public final class KernelContext {
  /** Of all ranks' parts that a reduce-scatter exchanges at once. */
  static final int WORK_BYTES = 8 << 10;

  /**
   * A reduce's outcome of so many bytes leaves the caches at once, where it does not replace the
   * root's own data. The last cache may have room for it, but the root's core would have to fetch
   * each line from there to write it.
   */
  private static final long LARGE_REDUCE_BYTES = 16 << 20;

  final KernelCommunicatorSpec spec;
  final ConnectionTable ends;
  final SpinWait waiter;
  final HostMemory scratch;
  final BufferCopies copies;
  private final CacheShare cache;

  /** Sums on their way, which primitives leave alone. */
  final HostMemory sums;

  /** Null where NVLS is not used, and until its memory is made. */
  private volatile NvlsEnds nvls;

  /** Operator that replaces the work's operator; null to use the work's. */
  private final ReductionOperator operator;

  /**
   * The context of a communicator.
   *
   * @param memory of {@link #scratchBytes}
   */
  public KernelContext(
      KernelCommunicatorSpec spec,
      ConnectionTable ends,
      SpinWait waiter,
      HostMemory memory,
      BufferCopies copies,
      CacheShare cache) {
    this.copies = copies;
    this.cache = cache;
    this.spec = spec;
    this.ends = ends;
    this.waiter = waiter;
    long own = spec.nRanks() == 1 ? 0 : WORK_BYTES;
    this.scratch = memory.slice(own, memory.size() - own);
    this.sums = memory.slice(0, own);
    if (spec.nvls() != null && spec.nvls().isMade()) {
      attach(spec.nvls());
    }
    this.operator = null;
  }

  private KernelContext(KernelContext usual, ReductionOperator operator) {
    this.spec = usual.spec;
    this.copies = usual.copies;
    this.cache = usual.cache;
    this.ends = usual.ends;
    this.waiter = usual.waiter;
    this.scratch = usual.scratch;
    this.sums = usual.sums;
    this.operator = operator;
  }

  /** Takes the memory of NVLS; on the thread that prepares. */
  public void attach(Nvls made) {
    nvls = new NvlsEnds(made, waiter, scratch);
  }

  /** Null where NVLS is not used, and until its memory is made. */
  NvlsEnds nvls() {
    return nvls;
  }

  /** The same context with another reduction, without NVLS. */
  public KernelContext with(ReductionOperator other) {
    return new KernelContext(this, other);
  }

  /**
   * Bytes of memory that kernels need beside the connections.
   *
   * @param window bytes that kernels between windows need
   */
  public static int scratchBytes(KernelCommunicatorSpec spec, int window) {
    int third = Math.max(spec.layout().llSlotBytes() / 2, 8 * spec.nRanks());
    return spec.nRanks() == 1 ? 0 : WORK_BYTES + Math.max(window, 3 * third);
  }

  public KernelCommunicatorSpec spec() {
    return spec;
  }

  /** This rank's place in the ring. */
  Ring ring() {
    return Ring.of(spec.ring().get(0), spec.rank());
  }

  /** True if a program's operator replaces the work's. */
  public boolean hasOperator() {
    return operator != null;
  }

  /** The error for a work that an algorithm does not have. */
  public static InternalErrorException none(CollectiveWork work) {
    return new InternalErrorException(
        "the host device has no %s of %s (%s) by %s"
            .formatted(
                work.operation().label(),
                work.type().label(),
                work.op().label(),
                work.algorithm().label()),
        "report this: the planner should not have chosen it");
  }

  /** The bytes of the work's data: of a rank's part, where there are parts. */
  static long bytes(CollectiveWork work) {
    return work.count() * work.type().bytes();
  }

  /** A set of primitives towards each other rank, beginning with the next. */
  Primitives[] to(CollectiveWork work) {
    return others().stream()
        .map(r -> primitives(work, List.of(), List.of(r), reductionOfAll(work)))
        .toArray(Primitives[]::new);
  }

  /** A set of primitives from each other rank, beginning with the next. */
  Primitives[] from(CollectiveWork work) {
    return others().stream()
        .map(r -> primitives(work, List.of(r), List.of(), null))
        .toArray(Primitives[]::new);
  }

  /** The other ranks, beginning with the next. */
  List<Integer> others() {
    return IntStream.range(1, spec.nRanks())
        .map(d -> (spec.rank() + d) % spec.nRanks())
        .boxed()
        .toList();
  }

  /** The reduction of a collective that reduces, else null. */
  public Reduction reduction(CollectiveWork work) {
    if (!work.operation().reduces()) {
      return null;
    }
    return operator == null
        ? Reductions.of(work.type(), work.op(), spec.nRanks())
        : Reductions.of(work.type(), operator);
  }

  /** The reduction where the operands of all ranks are combined at once. */
  Reduction reductionOfAll(CollectiveWork work) {
    return operator == null && work.operation().reduces()
        ? Reductions.ofAll(work.type(), work.op(), spec.nRanks())
        : reduction(work);
  }

  Call call(CollectiveWork work) {
    boolean oneWay = work.operation().isRooted();
    return operator == null
        ? new Call(work.signature(), () -> CallText.of(work.shape(), work.count()), oneWay)
        : new Call(
            CallSignature.of(work.shape(), work.count(), operator),
            () -> CallText.of(work.shape(), work.count(), operator),
            oneWay);
  }

  Chunking parts(CollectiveWork work, long count, int owners) {
    int elementBytes = work.type().bytes();
    return new Chunking(count * elementBytes, owners, elementBytes, work.chunkBytes());
  }

  /** Primitives whose peers may read from this rank's buffers until the kernel ends, if it pays. */
  Primitives primitives(
      CollectiveWork work, List<Integer> from, List<Integer> to, Reduction reduction) {
    Primitives primitives = inSlots(work, from, to, reduction);
    // In a reduce the data go one way: the copy into a slot is made while the receiver reduces.
    primitives.mayExpose(work.operation() != Operation.REDUCE);
    primitives.leaves(leaves(work));
    return primitives;
  }

  /** A copy of all bytes, the work of a rank alone. */
  public Kernel copy(long bytes) {
    boolean leaves = cache.isExceeded(bytes);
    return (send, recv) -> copies.copyAll(send, 0, recv, 0, bytes, leaves);
  }

  /** True if what a work's ranks receive leaves the caches before anybody reads it. */
  boolean leaves(CollectiveWork work) {
    long received = bytes(work) * work.operation().recvParts(spec.nRanks(), /* isRoot= */ true);
    boolean large = work.operation() == Operation.REDUCE && received >= LARGE_REDUCE_BYTES;
    return large || cache.isExceeded(received);
  }

  /** Primitives that send through slots alone. */
  Primitives inSlots(
      CollectiveWork work, List<Integer> from, List<Integer> to, Reduction reduction) {
    RecvEnd[] recvs = from.stream().sorted().map(ends::recv).toArray(RecvEnd[]::new);
    SendEnd[] sends = to.stream().map(ends::send).toArray(SendEnd[]::new);
    int elementBytes = work.type().bytes();
    Call call = call(work);
    return work.protocol() == Protocol.LL
        ? new LlPrimitives(
            spec.rank(), waiter, call, recvs, sends, reduction, elementBytes, scratch)
        : new SlotPrimitives(
            spec.rank(),
            waiter,
            call,
            recvs,
            sends,
            reduction,
            elementBytes,
            scratch,
            copies,
            work.protocol() == Protocol.LL128);
  }
}
