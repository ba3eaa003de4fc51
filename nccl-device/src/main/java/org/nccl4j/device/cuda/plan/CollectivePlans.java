package org.nccl4j.device.cuda.plan;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.HostGrid;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.Tree;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Turns collectives into kernels with arguments. */
public final class CollectivePlans implements AutoCloseable {
  private static final int CHANNELS = ConnectionLayout.CHANNELS;

  private final PlanContext context;
  private final KernelCommunicatorSpec spec;
  private final CommunicatorMemory memory;
  private final ChannelGroup group;

  public CollectivePlans(PlanContext context) {
    this.context = context;
    this.spec = context.spec();
    this.memory = context.memory();
    this.group = new ChannelGroup(context, this);
  }

  @Override
  public void close() {
    group.close();
  }

  public CudaKernelPlan prepare(CollectiveWork work) {
    check(work);
    int channels = channels(work);
    Offheap arguments = arguments(work, 0, channels);
    if (!spec.carried() && memory.hasOneRing()) {
      DynamicRingRounds.of(work, bytes(work), channels, sliceBytes(work), spec.nRanks())
          .ifPresent(rounds -> rounds.put(arguments, memory.claims()));
    }
    return new CollectivePlan(
        context,
        arguments,
        function(work),
        new CudaKernelPlan.Shape(channels, threads(work, channels), 1),
        CudaKernelPlan.Needs.of(work, spec.rank(), spec.nRanks(), bytes(work)),
        work,
        ChannelGroup.takes(work, spec.nRanks(), spec.localRanks()) ? group : null);
  }

  /**
   * A kernel on some of the channels, from a first on. It does not start early, nor does the one
   * behind it: as many blocks as run at the same time on other channels would wait beside each.
   */
  CudaKernelPlan part(CollectiveWork work, int first, int channels) {
    return new CudaKernelPlan(
        context,
        arguments(work, first, channels),
        function(work),
        new CudaKernelPlan.Shape(channels, threads(work, channels), 0),
        CudaKernelPlan.Needs.of(work, spec.rank(), spec.nRanks(), bytes(work)));
  }

  private static long bytes(CollectiveWork work) {
    return Math.multiplyExact(work.count(), (long) work.type().bytes());
  }

  /** Channels of a collective that is alone. */
  int channels(CollectiveWork work) {
    int wanted = work.nChannels() > 0 ? work.nChannels() : work.limit(channels(work, bytes(work)));
    return Math.min(CHANNELS, wanted);
  }

  private long function(CollectiveWork work) {
    return work.count() == 0
        ? 0
        : context
            .kernels()
            .collective(work.operation(), work.type(), work.algorithm(), work.protocol());
  }

  private int threads(CollectiveWork work, int channels) {
    long share = Math.min(sliceBytes(work), (bytes(work) + channels - 1) / channels);
    return threads(work.protocol(), share);
  }

  /** The arguments of a collective on some channels. */
  private Offheap arguments(CollectiveWork work, int first, int channels) {
    Offheap arguments = context.offheap().take(KernelLayout.COLLECTIVE_BYTES);
    memory.putCommunicator(arguments);
    arguments
        .putLong(KernelLayout.BYTES, bytes(work))
        .putLong(KernelLayout.RING_RANKS, memory.ringRanks(first))
        .putInt(KernelLayout.COLLECTIVE, work.operation().ordinal())
        .putInt(KernelLayout.ALGORITHM, work.algorithm().ordinal())
        .putInt(KernelLayout.OPERATOR, work.op().ordinal())
        .putInt(KernelLayout.ROOT, work.root())
        .putInt(KernelLayout.N_CHANNELS, channels)
        .putInt(KernelLayout.SLICE_BYTES, sliceBytes(work))
        .putInt(KernelLayout.FIRST_CHANNEL, first)
        .putInt(KernelLayout.SIGNATURE, work.signature());
    if (work.algorithm() == Algorithm.HIERARCHICAL) {
      putGrid(arguments);
    } else {
      putTopology(arguments.bytes(), work, first);
    }
    if (spec.nRanks() > KernelLayout.INLINE_PEERS) {
      arguments.putLong(KernelLayout.PEER_TABLE, memory.peerTable());
    } else {
      for (int peer = 0; peer < spec.nRanks(); peer++) {
        memory.putPeer(
            arguments.bytes(), KernelLayout.PEERS + peer * KernelLayout.PEER_BYTES, peer);
      }
    }
    return arguments;
  }

  private void check(CollectiveWork work) {
    if (work.algorithm().isOfHostAlone()) {
      throw new InvalidArgumentException(
          ErrorId.ALGORITHM,
          "GPUs have no algorithm %s, which only the host device has"
              .formatted(work.algorithm().label()),
          "use Ring or Tree");
    }
    if (!work.algorithm().has(work.operation())) {
      throw new InvalidArgumentException(
          ErrorId.ALGORITHM,
          "%s has no algorithm %s".formatted(work.operation().label(), work.algorithm().label()),
          "use Ring or OneShot");
    }
    if (!work.algorithm().has(work.protocol())) {
      throw new InvalidArgumentException(
          ErrorId.ALGORITHM,
          "%s has no protocol %s".formatted(work.algorithm().label(), work.protocol().label()),
          "use Simple");
    }
    if (work.algorithm() == Algorithm.PAT && leastSlice(work) > most(work)) {
      throw new InvalidArgumentException(
          ErrorId.ALGORITHM,
          "PAT among %d ranks with slots of %d bytes a channel; it needs %d"
              .formatted(spec.nRanks(), most(work), leastSlice(work)),
          "use Ring");
    }
    if (work.algorithm() == Algorithm.HIERARCHICAL && !HostGrid.isGrid(spec.hosts())) {
      throw new InvalidArgumentException(
          ErrorId.ALGORITHM,
          "Hierarchical among ranks on hosts with %s ranks; it needs several hosts with as many"
                  .formatted(spec.hosts().stream().map(List::size).toList())
              + " ranks each, more than one",
          "use Ring or Tree");
    }
    if (work.algorithm().isStraight() && spec.nRanks() > KernelLayout.INLINE_PEERS + 1) {
      throw new InvalidArgumentException(
          ErrorId.ALGORITHM,
          "%s among %d ranks; it goes up to %d"
              .formatted(work.algorithm().label(), spec.nRanks(), KernelLayout.INLINE_PEERS + 1),
          "use Ring or Tree");
    }
    checkCarried(work);
  }

  /** A proxy carries few channels and not LL128. The planner knows that, on all ranks alike. */
  private void checkCarried(CollectiveWork work) {
    for (int peer = 0; peer < spec.nRanks(); peer++) {
      Connection connection = spec.sends().get(peer);
      if (connection == null || connection.carried() == 0) {
        continue;
      }
      if (!connection.has(work.protocol())
          || work.nChannels() < 1
          || work.nChannels() > connection.carried() && leadsTo(work, peer)) {
        throw new InvalidArgumentException(
            ErrorId.ALGORITHM,
            ("%s with %s on %d channels cannot use the connection to rank %d, which is over a"
                        + " network with")
                    .formatted(
                        work.operation().label(), work.protocol().label(), work.nChannels(), peer)
                + " %s on at most %d"
                    .formatted(
                        connection.lines() ? "LL or Simple" : "Simple", connection.carried()),
            "use these protocols and at most that many channels");
      }
    }
  }

  /** True if the work uses the connections with a rank; others may have fewer channels. */
  private boolean leadsTo(CollectiveWork work, int peer) {
    int n = spec.nRanks();
    int distance = (peer - spec.rank() + n) % n;
    return switch (work.algorithm()) {
      case RING -> spec.ring().stream().anyMatch(ring -> areNeighbours(ring, spec.rank(), peer));
      case TREE -> spec.trees().stream().anyMatch(tree -> tree.neighbours().contains(peer));
      case PAT -> Integer.bitCount(distance) == 1 || Integer.bitCount(n - distance) == 1;
      case HIERARCHICAL -> {
        HostGrid grid = HostGrid.of(spec.hosts(), spec.rank());
        yield IntStream.of(
                grid.before(0, 1), grid.before(0, -1), grid.before(1, 0), grid.before(-1, 0))
            .anyMatch(neighbour -> neighbour == peer);
      }
      default -> true;
    };
  }

  private static boolean areNeighbours(int[] ring, int one, int other) {
    int distance = Math.abs(indexOf(ring, one) - indexOf(ring, other));
    return distance == 1 || distance == ring.length - 1;
  }

  /** Bytes of data of a channel's step: the requested bytes, made to fit and even. */
  private int sliceBytes(CollectiveWork work) {
    return Math.max(leastSlice(work), Math.min(most(work), work.chunkBytes() / 128 * 128));
  }

  private int most(CollectiveWork work) {
    return ConnectionSizes.sliceBytes(spec.layout(), work.protocol());
  }

  private int leastSlice(CollectiveWork work) {
    return work.algorithm() == Algorithm.PAT ? ConnectionSizes.leastPatSlice(spec.nRanks()) : 128;
  }

  /** Channels where the planner leaves it to the device: as many as have a good share each. */
  private int channels(CollectiveWork work, long bytes) {
    boolean split =
        work.operation() == Operation.ALL_REDUCE && work.algorithm() != Algorithm.ONE_SHOT;
    long part = split ? bytes / spec.nRanks() : bytes;
    int share =
        switch (work.protocol()) {
          case LL -> 2 << 10;
          case LL128 -> 1920;
          case SIMPLE -> 8 << 10;
        };
    return (int) Math.max(1, Math.min(CHANNELS, (part + share - 1) / share));
  }

  /** Returns the number of threads that have work, but at least two warps for the shared tasks. */
  private static int threads(Protocol protocol, long bytes) {
    long warps =
        switch (protocol) {
          case LL -> (bytes + 255) / 256; // 32 lines of 8 bytes
          case LL128 -> (bytes + 479) / 480; // 4 lines of 120 bytes
          case SIMPLE -> KernelLayout.SIMPLE_THREADS / 32;
        };
    return protocol == Protocol.SIMPLE
        ? KernelLayout.SIMPLE_THREADS
        : (int) Math.max(2, Math.min(KernelLayout.FLAGGED_THREADS / 32, warps)) * 32;
  }

  /** Puts the places in rings and trees of the channels from a first on. */
  private void putTopology(ByteBuffer arguments, CollectiveWork work, int first) {
    int n = spec.nRanks();
    boolean turns = work.algorithm() == Algorithm.TREE && work.operation().isRooted();
    for (int channel = 0; channel < CHANNELS; channel++) {
      int[] ring = memory.ring(first + channel);
      int index = indexOf(ring, spec.rank());
      int at = KernelLayout.RANK_BYTES * channel;
      arguments.putShort(KernelLayout.RING_INDEX + at, (short) index);
      arguments.putShort(KernelLayout.RING_PREV + at, (short) ring[(index + n - 1) % n]);
      arguments.putShort(KernelLayout.RING_NEXT + at, (short) ring[(index + 1) % n]);
      if (!spec.trees().isEmpty()) {
        Tree tree = spec.trees().get((first + channel) % spec.trees().size());
        putTree(arguments, turns ? tree.from(spec.rank(), work.root()) : tree, channel);
      }
    }
  }

  /** Puts the place among the ranks of hosts, on all channels alike. */
  private void putGrid(Offheap arguments) {
    HostGrid grid = HostGrid.of(spec.hosts(), spec.rank());
    arguments
        .putLong(KernelLayout.RING_RANKS, memory.hostAfterHostRanks())
        .putInt(KernelLayout.HOST_RANKS, grid.locals());
    ByteBuffer bytes = arguments.bytes();
    for (int channel = 0; channel < CHANNELS; channel++) {
      int at = KernelLayout.RANK_BYTES * channel;
      bytes.putShort(KernelLayout.RING_INDEX + at, (short) grid.place());
      bytes.putShort(KernelLayout.RING_PREV + at, (short) grid.before(0, 1));
      bytes.putShort(KernelLayout.RING_NEXT + at, (short) grid.before(0, -1));
      bytes.putShort(KernelLayout.TREE_UP + at, (short) grid.before(1, 0));
      bytes.putShort(KernelLayout.TREE_DOWN + at, (short) grid.before(-1, 0));
    }
  }

  private static int indexOf(int[] ring, int rank) {
    for (int i = 0; i < ring.length; i++) {
      if (ring[i] == rank) {
        return i;
      }
    }
    throw new InvalidArgumentException(
        ErrorId.RANK,
        "rank %d is not in its ring %s".formatted(rank, Arrays.toString(ring)),
        "give every channel a ring of all ranks");
  }

  /** The root of an operation may have one more child, which takes the place of the parent. */
  private static void putTree(ByteBuffer arguments, Tree place, int channel) {
    int most = KernelLayout.TREE_CHILDREN;
    if (place.down().size() > most + (place.up() < 0 ? 1 : 0)) {
      throw new InvalidArgumentException(
          ErrorId.RANK,
          "a rank has %d children in a tree".formatted(place.down().size()),
          "give each rank at most %d".formatted(most));
    }
    int up = place.up() < 0 ? down(place, most) : place.up();
    int at = KernelLayout.RANK_BYTES * channel;
    arguments.putShort(KernelLayout.TREE_UP + at, rankOrNone(up));
    for (int child = 0; child < most; child++) {
      int row = KernelLayout.TREE_DOWN + KernelLayout.RANK_BYTES * CHANNELS * child;
      arguments.putShort(row + at, rankOrNone(down(place, child)));
    }
  }

  private static int down(Tree tree, int child) {
    return child < tree.down().size() ? tree.down().get(child) : -1;
  }

  private static short rankOrNone(int rank) {
    return (short) (rank < 0 ? KernelLayout.NONE : rank);
  }
}
