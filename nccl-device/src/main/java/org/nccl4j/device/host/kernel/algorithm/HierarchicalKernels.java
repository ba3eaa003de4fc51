package org.nccl4j.device.host.kernel.algorithm;

import java.util.List;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.Chunking;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.Primitives;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.reduce.Reduction;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.HostGrid;

/**
 * The kernels of hosts with as many ranks each. Data have a block for each rank. Blocks are summed
 * along the ring of a host until its ranks have each its own share, then along the rails, and are
 * given out the other way round. The last step within a host is the first along a rail: sums on
 * their way need no memory, own elements are prepared once, and sums are finished once, so every
 * rank gets the same bits.
 *
 * <p>While a block is under way between hosts, the ranks of a host work on the next one.
 */
public final class HierarchicalKernels implements HostAlgorithm {
  @Override
  public Kernel kernel(KernelContext context, CollectiveWork work) {
    HostGrid grid = HostGrid.of(context.spec.hosts(), context.spec.rank());
    Parts parts = new Parts(context.parts(work, work.count(), 1), KernelContext.bytes(work));
    return switch (work.operation()) {
      case ALL_REDUCE ->
          new AllReduce(
              Sums.of(context, work, grid, /* spreads= */ true),
              Gathers.of(context, work, grid),
              new Shares(context.parts(work, work.count(), context.spec.nRanks())));
      case ALL_GATHER -> new AllGather(Gathers.of(context, work, grid), parts);
      case REDUCE_SCATTER ->
          new ReduceScatter(Sums.of(context, work, grid, /* spreads= */ false), parts);
      default -> throw KernelContext.none(work);
    };
  }

  /** The blocks of the current loop, one for each rank. */
  private interface Blocks {
    boolean first();

    boolean next();

    /** Where a rank's block begins in a buffer that has the blocks of all. */
    long offset(int rank);

    int bytes(int rank);
  }

  /** Blocks of data in common. */
  private record Shares(Chunking chunks) implements Blocks {
    @Override
    public boolean first() {
      return chunks.first();
    }

    @Override
    public boolean next() {
      return chunks.next();
    }

    @Override
    public long offset(int rank) {
      return chunks.offset(rank);
    }

    @Override
    public int bytes(int rank) {
      return chunks.bytes(rank);
    }
  }

  /** Blocks of parts, one after the other, each of a rank. */
  private record Parts(Chunking chunks, long partBytes) implements Blocks {
    @Override
    public boolean first() {
      return chunks.first();
    }

    @Override
    public boolean next() {
      return chunks.next();
    }

    @Override
    public long offset(int rank) {
      return rank * partBytes + chunks.offset(0);
    }

    /** Where a block begins in its rank's part. */
    long offsetInPart() {
      return chunks.offset(0);
    }

    @Override
    public int bytes(int rank) {
      return chunks.bytes(0);
    }
  }

  /**
   * The steps of a loop that sum.
   *
   * @param within from the rank before on the host to the next one
   * @param leaving from the rank before on the host to the next host
   * @param passing from the rank before on the host and the host before to the next host
   * @param ending from both; for an all-reduce, to the next host and the next rank on the host
   */
  private record Sums(
      HostGrid grid, Primitives within, Primitives leaving, Primitives passing, Primitives ending) {
    static Sums of(KernelContext context, CollectiveWork work, HostGrid grid, boolean spreads) {
      int before = grid.before(0, 1);
      int next = grid.before(0, -1);
      int hostBefore = grid.before(1, 0);
      int nextHost = grid.before(-1, 0);
      List<Integer> both = List.of(before, hostBefore);
      List<Integer> onward = spreads ? List.of(nextHost, next) : List.of();
      Reduction sum = context.reduction(work);
      return new Sums(
          grid,
          context.primitives(work, List.of(before), List.of(next), sum),
          context.primitives(work, List.of(before), List.of(nextHost), sum),
          context.primitives(work, both, List.of(nextHost), sum),
          context.primitives(work, both, onward, sum));
    }

    /**
     * Sums the blocks of a loop, but for the last step of the rank's own.
     *
     * @param free memory for sums on their way where the blocks lie; null if there is none
     */
    @HotPath
    void run(HostMemory send, HostMemory free, Blocks blocks) {
      for (int h = 1; h <= grid.hosts(); h++) {
        int block = grid.before(h, 1);
        within.send(send, blocks.offset(block), blocks.bytes(block));
        for (int i = 2; i < grid.locals(); i++) {
          add(within, send, free, blocks, grid.before(h, i));
        }
        if (h < grid.hosts()) {
          add(h == 1 ? leaving : passing, send, free, blocks, grid.before(h, 0));
        }
      }
    }

    private static void add(
        Primitives by, HostMemory send, HostMemory free, Blocks blocks, int block) {
      // A block of the result is free until the complete one comes, after the peer has read this.
      long at = blocks.offset(block);
      by.recvReduceSend(send, at, free, at, blocks.bytes(block));
    }
  }

  /**
   * The steps of a loop that give sums or parts out.
   *
   * @param within from the rank before on the host to the next one
   * @param passing from the host before to the next host and the next rank on the host
   * @param ending from the host before to the next rank on the host
   */
  private record Gathers(HostGrid grid, Primitives within, Primitives passing, Primitives ending) {
    static Gathers of(KernelContext context, CollectiveWork work, HostGrid grid) {
      List<Integer> before = List.of(grid.before(0, 1));
      List<Integer> hostBefore = List.of(grid.before(1, 0));
      int next = grid.before(0, -1);
      int nextHost = grid.before(-1, 0);
      return new Gathers(
          grid,
          context.primitives(work, before, List.of(next), null),
          context.primitives(work, hostBefore, List.of(nextHost, next), null),
          context.primitives(work, hostBefore, List.of(next), null));
    }

    /** Receives the blocks of a loop, once the own block was sent to the peers of passing. */
    @HotPath
    void run(HostMemory recv, Blocks blocks) {
      fromHost(recv, blocks, 0);
      for (int h = 1; h < grid.hosts(); h++) {
        int block = grid.before(h, 0);
        Primitives by = h == grid.hosts() - 1 ? ending : passing;
        by.recvCopySend(recv, blocks.offset(block), blocks.bytes(block));
        fromHost(recv, blocks, h);
      }
    }

    private void fromHost(HostMemory recv, Blocks blocks, int h) {
      for (int i = 1; i < grid.locals(); i++) {
        int block = grid.before(h, i);
        long at = blocks.offset(block);
        if (i < grid.locals() - 1) {
          within.recvCopySend(recv, at, blocks.bytes(block));
        } else {
          within.recv(recv, at, blocks.bytes(block));
        }
      }
    }
  }

  /** All-reduce: sums, then gives them out. */
  private record AllReduce(Sums sums, Gathers gathers, Blocks blocks) implements Kernel {
    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      int own = sums.grid.self();
      for (boolean more = blocks.first(); more; more = blocks.next()) {
        sums.run(send, recv, blocks);
        long at = blocks.offset(own);
        sums.ending.recvReduceCopySend(send, at, recv, at, blocks.bytes(own));
        gathers.run(recv, blocks);
      }
    }
  }

  /** All-gather. */
  private record AllGather(Gathers gathers, Parts blocks) implements Kernel {
    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      int own = gathers.grid.self();
      for (boolean more = blocks.first(); more; more = blocks.next()) {
        long from = blocks.offsetInPart();
        long at = blocks.offset(own);
        if (send.address() + from == recv.address() + at) {
          gathers.passing.send(send, from, blocks.bytes(own));
        } else {
          gathers.passing.copySend(send, from, recv, at, blocks.bytes(own));
        }
        gathers.run(recv, blocks);
      }
    }
  }

  /** Reduce-scatter. */
  private record ReduceScatter(Sums sums, Parts blocks) implements Kernel {
    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      int own = sums.grid.self();
      for (boolean more = blocks.first(); more; more = blocks.next()) {
        sums.run(send, null, blocks);
        long at = blocks.offset(own);
        sums.ending.recvReduceCopy(send, at, recv, blocks.offsetInPart(), blocks.bytes(own));
      }
    }
  }
}
