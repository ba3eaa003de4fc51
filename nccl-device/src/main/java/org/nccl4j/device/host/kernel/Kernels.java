package org.nccl4j.device.host.kernel;

import java.util.List;
import java.util.stream.IntStream;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.host.kernel.algorithm.BinomialTree;
import org.nccl4j.device.host.kernel.algorithm.Doubling;
import org.nccl4j.device.host.kernel.algorithm.OneShot;
import org.nccl4j.device.host.kernel.algorithm.PatAllGather;
import org.nccl4j.device.host.kernel.algorithm.PatReduceScatter;
import org.nccl4j.device.host.kernel.algorithm.PatTrees;
import org.nccl4j.device.host.kernel.algorithm.Ring;
import org.nccl4j.device.host.kernel.algorithm.RingAllGather;
import org.nccl4j.device.host.kernel.algorithm.RingAllReduce;
import org.nccl4j.device.host.kernel.algorithm.RingBroadcast;
import org.nccl4j.device.host.kernel.algorithm.RingReduce;
import org.nccl4j.device.host.kernel.algorithm.RingReduceScatter;
import org.nccl4j.device.host.kernel.algorithm.SingleRankReduction;
import org.nccl4j.device.host.kernel.algorithm.TreeAllReduce;
import org.nccl4j.device.host.kernel.algorithm.TwoShotAllReduce;
import org.nccl4j.device.host.kernel.nvls.NvlsEnds;
import org.nccl4j.device.host.kernel.nvls.NvlsKernels;
import org.nccl4j.device.host.kernel.nvls.NvlsTreeAllReduce;
import org.nccl4j.device.host.kernel.protocol.Call;
import org.nccl4j.device.host.kernel.protocol.Chunking;
import org.nccl4j.device.host.kernel.protocol.ConnectionTable;
import org.nccl4j.device.host.kernel.protocol.Copies;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.LlPrimitives;
import org.nccl4j.device.host.kernel.protocol.Primitives;
import org.nccl4j.device.host.kernel.protocol.RecvEnd;
import org.nccl4j.device.host.kernel.protocol.SendEnd;
import org.nccl4j.device.host.kernel.protocol.SlotPrimitives;
import org.nccl4j.device.host.kernel.protocol.SpinWait;
import org.nccl4j.device.host.kernel.window.WindowKernels;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.reduce.PartialReduction;
import org.nccl4j.device.host.reduce.PreparedReduction;
import org.nccl4j.device.host.reduce.Reduction;
import org.nccl4j.device.host.reduce.Reductions;
import org.nccl4j.device.kernel.CallSignature;
import org.nccl4j.device.kernel.CallText;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.Operation;
import org.nccl4j.device.kernel.Protocol;
import org.nccl4j.device.kernel.Tree;

/** The table of kernels: which one runs a collective by an algorithm. */
final class Kernels {
  /** Of all ranks' parts that a reduce-scatter exchanges at once. */
  private static final int WORK_BYTES = 8 << 10;

  private final KernelCommunicatorSpec spec;
  private final ConnectionTable ends;
  private final SpinWait waiter;
  private final HostMemory scratch;

  /** Sums on their way, which primitives leave alone. */
  private final HostMemory sums;

  /** Null where NVLS is not used. */
  private final NvlsEnds nvls;

  /** Operator that replaces the work's operator; null to use the work's. */
  private final ReductionOperator operator;

  /**
   * The kernels of a communicator.
   *
   * @param memory of {@link #scratchBytes}
   */
  Kernels(KernelCommunicatorSpec spec, ConnectionTable ends, SpinWait waiter, HostMemory memory) {
    this.spec = spec;
    this.ends = ends;
    this.waiter = waiter;
    long own = spec.nRanks() == 1 ? 0 : WORK_BYTES;
    this.scratch = memory.slice(own, memory.size() - own);
    this.sums = memory.slice(0, own);
    this.nvls = spec.nvls() == null ? null : new NvlsEnds(spec.nvls(), waiter, scratch);
    this.operator = null;
  }

  /** The same kernels with another reduction. */
  private Kernels(Kernels usual, ReductionOperator operator) {
    this.spec = usual.spec;
    this.ends = usual.ends;
    this.waiter = usual.waiter;
    this.scratch = usual.scratch;
    this.sums = usual.sums;
    this.nvls = null;
    this.operator = operator;
  }

  /** Bytes of memory that kernels need beside the connections. */
  static int scratchBytes(KernelCommunicatorSpec spec) {
    int llData = spec.layout().llSlotBytes() / 2;
    return spec.nRanks() == 1 ? 0 : WORK_BYTES + Math.max(WindowKernels.scratchBytes(), 3 * llData);
  }

  Kernel of(CollectiveWork work, ReductionOperator other) {
    return new Kernels(this, other).of(work);
  }

  Kernel of(CollectiveWork work) {
    if (work.count() == 0) {
      return (send, recv) -> {};
    }
    if (spec.nRanks() == 1) {
      long bytes = work.count() * work.type().bytes();
      Reduction alone = reduction(work);
      if (operator != null && alone.hasPrepare()) {
        return new SingleRankReduction(alone, work.type().bytes(), bytes);
      }
      return (send, recv) -> Copies.copyAll(send, 0, recv, 0, bytes);
    }
    return switch (work.algorithm()) {
      case RING -> ring(work);
      case TREE -> tree(work);
      case ONE_SHOT -> oneShot(work);
      case TWO_SHOT -> twoShot(work);
      case NVLS -> nvls(work);
      case NVLS_TREE -> nvlsTree(work);
      case PAT -> pat(work);
      case DOUBLING -> doubling(work);
      default -> throw none(work);
    };
  }

  private Kernel pat(CollectiveWork work) {
    PatTrees trees = new PatTrees(spec.rank(), spec.nRanks());
    int size = work.type().bytes();
    long bytes = work.count() * size;
    int message = Math.min(work.chunkBytes(), spec.layout().simpleSlotBytes());
    int chunk = trees.chunkBytes(message, size);
    if (chunk == 0) {
      throw none(work);
    }
    SendEnd[] after = new SendEnd[trees.distances()];
    SendEnd[] before = new SendEnd[trees.distances()];
    RecvEnd[] fromBefore = new RecvEnd[trees.distances()];
    RecvEnd[] fromAfter = new RecvEnd[trees.distances()];
    for (int level = 0; level < trees.distances(); level++) {
      after[level] = ends.send(trees.at(1 << level));
      before[level] = ends.send(trees.at(-(1 << level)));
      fromBefore[level] = ends.recv(trees.at(-(1 << level)));
      fromAfter[level] = ends.recv(trees.at(1 << level));
    }
    return switch (work.operation()) {
      case ALL_GATHER ->
          new PatAllGather(trees, waiter, call(work), after, fromBefore, bytes, chunk);
      case REDUCE_SCATTER ->
          new PatReduceScatter(
              trees,
              waiter,
              call(work),
              before,
              fromAfter,
              reduction(work),
              size,
              scratch,
              bytes,
              chunk);
      default -> throw none(work);
    };
  }

  private Kernel doubling(CollectiveWork work) {
    if (!work.operation().isRooted()) {
      return exchanges(work);
    }
    BinomialTree tree = new BinomialTree(spec.rank(), work.root(), spec.nRanks());
    Chunking whole = parts(work, work.count(), 1);
    return switch (work.operation()) {
      case BROADCAST ->
          new BinomialTree.Broadcast(primitives(work, tree.parent(), tree.children(), null), whole);
      case REDUCE ->
          new BinomialTree.Reduce(
              primitives(work, tree.children(), tree.parent(), reduction(work)), whole);
      default -> throw none(work);
    };
  }

  private Kernel exchanges(CollectiveWork work) {
    Doubling place = new Doubling(spec.rank(), spec.nRanks());
    Reduction whole = reduction(work);
    Reduction partial = whole == null ? null : new PartialReduction(whole);
    Primitives[] partners =
        IntStream.of(place.partners())
            .mapToObj(partner -> inSlots(work, List.of(partner), List.of(partner), partial))
            .toArray(Primitives[]::new);
    List<Integer> other = List.of(place.spare());
    Primitives spare = place.spare() < 0 ? null : inSlots(work, other, other, partial);
    int size = work.type().bytes();
    switch (work.operation()) {
      case ALL_REDUCE -> {
        Chunking parts = parts(work, work.count(), 1);
        return new Doubling.AllReduce(place, partners, spare, whole, size, parts);
      }
      case REDUCE_SCATTER -> {
        int chunk = Math.min(work.chunkBytes(), WORK_BYTES) / spec.nRanks();
        if (chunk < size) {
          throw none(work);
        }
        long bytes = work.count() * size;
        Chunking parts = new Chunking(bytes, 1, size, chunk);
        return new Doubling.ReduceScatter(place, partners, spare, whole, size, parts, bytes, sums);
      }
      default -> throw none(work);
    }
  }

  private Kernel ring(CollectiveWork work) {
    Ring ring = Ring.of(spec.ring().get(0), spec.rank());
    long bytes = work.count() * work.type().bytes();
    Primitives along =
        primitives(work, List.of(ring.previous()), List.of(ring.next()), reduction(work));
    Chunking whole = parts(work, work.count(), 1);
    return switch (work.operation()) {
      case ALL_REDUCE -> new RingAllReduce(ring, along, parts(work, work.count(), ring.size()));
      case ALL_GATHER -> new RingAllGather(ring, along, whole, bytes);
      case REDUCE_SCATTER -> new RingReduceScatter(ring, along, whole, bytes);
      case BROADCAST -> new RingBroadcast(ring, along, whole, work.root());
      case REDUCE -> new RingReduce(ring, along, whole, work.root());
      default -> throw none(work);
    };
  }

  private Kernel oneShot(CollectiveWork work) {
    long bytes = work.count() * work.type().bytes();
    List<Integer> others = others();
    Primitives all = primitives(work, others, others, reduction(work));
    Chunking whole = parts(work, work.count(), 1);
    boolean isRoot = spec.rank() == work.root();
    return switch (work.operation()) {
      case ALL_REDUCE -> new OneShot.AllReduce(all, whole);
      case ALL_GATHER -> new OneShot.AllGather(all, from(work), whole, bytes, spec.rank());
      case REDUCE_SCATTER -> new OneShot.ReduceScatter(all, to(work), whole, bytes, spec.rank());
      case BROADCAST ->
          new OneShot.Broadcast(
              isRoot ? all : primitives(work, List.of(work.root()), List.of(), null),
              whole,
              isRoot);
      case REDUCE ->
          new OneShot.Reduce(
              isRoot ? all : primitives(work, List.of(), List.of(work.root()), reduction(work)),
              whole,
              isRoot);
      default -> throw none(work);
    };
  }

  private Kernel twoShot(CollectiveWork work) {
    return switch (work.operation()) {
      case ALL_REDUCE -> {
        List<Integer> others = others();
        Primitives all = primitives(work, others, others, reduction(work));
        Chunking parts = parts(work, work.count(), spec.nRanks());
        yield new TwoShotAllReduce(all, to(work), from(work), parts, spec.rank());
      }
      default -> throw none(work);
    };
  }

  private Kernel tree(CollectiveWork work) {
    return switch (work.operation()) {
      case ALL_REDUCE -> {
        long half = work.count() / 2;
        Kernel first = tree(work, 0, 0, half);
        Kernel second = tree(work, 1, half, work.count() - half);
        yield (send, recv) -> {
          first.run(send, recv);
          second.run(send, recv);
        };
      }
      default -> throw none(work);
    };
  }

  private Kernel tree(CollectiveWork work, int tree, long begin, long count) {
    Tree place = spec.trees().get(tree);
    List<Integer> parent = parent(place);
    List<Integer> children = place.down();
    return new TreeAllReduce(
        primitives(work, children, parent, reduction(work)),
        primitives(work, parent, children, null),
        parts(work, count, 1),
        begin * work.type().bytes());
  }

  private Kernel nvls(CollectiveWork work) {
    if (nvls == null || !Nvls.has(work.operation(), work.type(), work.op())) {
      throw none(work);
    }
    int size = work.type().bytes();
    long bytes = work.count() * size;
    int chunk = Math.min(work.chunkBytes(), spec.nvls().layout().chunkBytes());
    Reduction reduction = reduction(work);
    return switch (work.operation()) {
      case ALL_REDUCE ->
          new NvlsKernels.AllReduce(
              nvls,
              call(work),
              new Chunking(bytes, spec.nvls().heads().size(), size, chunk),
              reduction,
              size);
      case REDUCE_SCATTER ->
          new NvlsKernels.ReduceScatter(
              nvls, call(work), new Chunking(bytes, 1, size, chunk), bytes, reduction, size);
      case ALL_GATHER ->
          new NvlsKernels.AllGather(nvls, call(work), new Chunking(bytes, 1, size, chunk), bytes);
      default -> throw none(work);
    };
  }

  private Kernel nvlsTree(CollectiveWork work) {
    if (nvls == null
        || spec.nvls().machines() == 1
        || work.operation() != Operation.ALL_REDUCE
        || !Nvls.has(work.operation(), work.type(), work.op())) {
      throw none(work);
    }
    int size = work.type().bytes();
    int slot = Math.min(spec.nvls().layout().chunkBytes(), spec.layout().simpleSlotBytes());
    int heads = spec.nvls().heads().size();
    Chunking parts =
        new Chunking(work.count() * size, heads, size, Math.min(work.chunkBytes(), slot));
    Reduction reduction = reduction(work);
    Reduction prepared = new PreparedReduction(reduction);
    List<Tree> trees = spec.nvls().trees();
    return new NvlsTreeAllReduce(
        nvls,
        call(work),
        parts,
        reduction,
        size,
        trees.stream()
            .map(t -> inSlots(work, t.down(), parent(t), prepared))
            .toArray(Primitives[]::new),
        trees.stream()
            .map(t -> inSlots(work, parent(t), t.down(), null))
            .toArray(Primitives[]::new));
  }

  private static List<Integer> parent(Tree place) {
    return place.up() < 0 ? List.of() : List.of(place.up());
  }

  private static InternalErrorException none(CollectiveWork work) {
    return new InternalErrorException(
        "the host device has no %s of %s (%s) by %s"
            .formatted(
                work.operation().label(),
                work.type().label(),
                work.op().label(),
                work.algorithm().label()),
        "report this: the planner should not have chosen it");
  }

  /** A set of primitives towards each other rank, beginning with the next. */
  private Primitives[] to(CollectiveWork work) {
    return others().stream()
        .map(r -> primitives(work, List.of(), List.of(r), reduction(work)))
        .toArray(Primitives[]::new);
  }

  /** A set of primitives from each other rank, beginning with the next. */
  private Primitives[] from(CollectiveWork work) {
    return others().stream()
        .map(r -> primitives(work, List.of(r), List.of(), null))
        .toArray(Primitives[]::new);
  }

  /** The other ranks, beginning with the next. */
  private List<Integer> others() {
    return IntStream.range(1, spec.nRanks())
        .map(d -> (spec.rank() + d) % spec.nRanks())
        .boxed()
        .toList();
  }

  /** The reduction of a collective that reduces, else null. */
  private Reduction reduction(CollectiveWork work) {
    if (!work.operation().reduces()) {
      return null;
    }
    return operator == null
        ? Reductions.of(work.type(), work.op(), spec.nRanks())
        : Reductions.of(work.type(), operator);
  }

  private Call call(CollectiveWork work) {
    return operator == null
        ? new Call(work.signature(), () -> CallText.of(work))
        : new Call(CallSignature.of(work, operator), () -> CallText.of(work, operator));
  }

  private Chunking parts(CollectiveWork work, long count, int owners) {
    int elementBytes = work.type().bytes();
    return new Chunking(count * elementBytes, owners, elementBytes, work.chunkBytes());
  }

  /** Primitives whose peers may read from this rank's buffers until the kernel ends, if it pays. */
  private Primitives primitives(
      CollectiveWork work, List<Integer> from, List<Integer> to, Reduction reduction) {
    Primitives primitives = inSlots(work, from, to, reduction);
    // In a reduce the data go one way: the copy into a slot is made while the receiver reduces.
    primitives.mayLend(work.operation() != Operation.REDUCE);
    return primitives;
  }

  /** Primitives that send through slots alone. */
  private Primitives inSlots(
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
            work.protocol() == Protocol.LL128);
  }
}
