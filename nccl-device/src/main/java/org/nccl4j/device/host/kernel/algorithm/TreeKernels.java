package org.nccl4j.device.host.kernel.algorithm;

import java.util.List;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.Chunking;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.Primitives;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.Tree;

/**
 * The kernels of the double binary tree: each tree has half of the data. Broadcast and reduce begin
 * and end at any rank: then each tree has that rank as its root, and the same edges.
 */
public final class TreeKernels implements HostAlgorithm {
  @Override
  public Kernel kernel(KernelContext context, CollectiveWork work) {
    // A chunk that is sent down or up alone is one message in one tree, and two in two.
    boolean single = work.operation().isRooted() && KernelContext.bytes(work) <= work.chunkBytes();
    long half = single ? 0 : work.count() / 2;
    Kernel first = along(context, work, 0, 0, half);
    Kernel second = along(context, work, 1, half, work.count() - half);
    return (send, recv) -> {
      first.run(send, recv);
      second.run(send, recv);
    };
  }

  private static Kernel along(
      KernelContext context, CollectiveWork work, int which, long first, long count) {
    Tree tree = context.spec.trees().get(which);
    Tree place = work.operation().isRooted() ? tree.from(context.spec.rank(), work.root()) : tree;
    List<Integer> parent = parent(place);
    List<Integer> children = place.down();
    Chunking parts = context.parts(work, count, 1);
    long begin = first * work.type().bytes();
    return switch (work.operation()) {
      case ALL_REDUCE ->
          new AllReduce(
              context.primitives(work, children, parent, context.reduction(work)),
              context.primitives(work, parent, children, null),
              parts,
              begin);
      case BROADCAST -> {
        Primitives down = context.primitives(work, parent, children, null);
        Chunking ahead = context.parts(work, count, 1);
        yield new BinomialTree.Broadcast(down, parts, new ExpectedChunks(down, ahead), begin);
      }
      case REDUCE ->
          new BinomialTree.Reduce(
              context.primitives(work, children, parent, context.reduction(work)), parts, begin);
      default -> throw KernelContext.none(work);
    };
  }

  /** The parent's rank; none at the root. */
  static List<Integer> parent(Tree place) {
    return place.up() < 0 ? List.of() : List.of(place.up());
  }

  /**
   * All-reduce along one of the two trees of the double binary tree: data are combined on the way
   * up to the root and copied on the way down.
   *
   * <p>One thread does both ways, so they take turns after a few chunks: fewer than a connection
   * has credit for even when the receiver gives slots back some at a time, so that nobody waits for
   * a rank which is still busy the other way.
   */
  private static final class AllReduce implements Kernel {
    private static final int CHUNKS_A_TURN = 4;

    private final Primitives up;
    private final Primitives down;
    private final Chunking parts;
    private final long begin;

    /**
     * A kernel for one tree's share of the data.
     *
     * @param up receives from the children and sends to the parent
     * @param down receives from the parent and sends to the children, without a reduction
     * @param parts of the share, with one owner
     * @param begin where the share begins, in bytes
     */
    AllReduce(Primitives up, Primitives down, Chunking parts, long begin) {
      this.up = up;
      this.down = down;
      this.parts = parts;
      this.begin = begin;
    }

    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      boolean more = parts.first();
      while (more) {
        long turn = parts.offset(0);
        int chunks = 0;
        do {
          goUp(send, recv, begin + parts.offset(0), parts.bytes(0));
          chunks++;
          more = parts.next();
        } while (more && chunks < CHUNKS_A_TURN);
        parts.from(turn);
        for (int chunk = 0; chunk < chunks; chunk++) {
          goDown(recv, begin + parts.offset(0), parts.bytes(0));
          more = parts.next();
        }
      }
    }

    private void goUp(HostMemory send, HostMemory recv, long at, int bytes) {
      if (up.sends.length == 0) {
        up.recvReduceCopy(send, at, recv, at, bytes);
      } else if (up.recvs.length == 0) {
        up.send(send, at, bytes);
      } else {
        // The result is free until it comes down, after the parent has read this.
        up.recvReduceSend(send, at, recv, at, bytes);
      }
    }

    private void goDown(HostMemory recv, long at, int bytes) {
      if (down.recvs.length == 0) {
        down.send(recv, at, bytes);
      } else if (down.sends.length == 0) {
        down.recv(recv, at, bytes);
      } else {
        down.recvCopySend(recv, at, bytes);
      }
    }
  }
}
