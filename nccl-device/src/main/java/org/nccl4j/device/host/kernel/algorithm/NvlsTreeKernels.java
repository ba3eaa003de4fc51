package org.nccl4j.device.host.kernel.algorithm;

import java.util.List;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.nvls.NvlsEnds;
import org.nccl4j.device.host.kernel.protocol.Call;
import org.nccl4j.device.host.kernel.protocol.Chunking;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.Primitives;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.reduce.PreparedReduction;
import org.nccl4j.device.host.reduce.Reduction;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.Tree;
import org.nccl4j.operation.Operation;

/** The kernels of NVLS inside each machine with trees between machines. */
public final class NvlsTreeKernels implements HostAlgorithm {
  @Override
  public Kernel kernel(KernelContext context, CollectiveWork work) {
    Nvls nvls = context.spec.nvls();
    if (context.nvls() == null
        || nvls.machines() == 1
        || work.operation() != Operation.ALL_REDUCE
        || !Nvls.has(work.operation(), work.type(), work.op())) {
      throw KernelContext.none(work);
    }
    int size = work.type().bytes();
    int slot = Math.min(nvls.layout().chunkBytes(), context.spec.layout().simpleSlotBytes());
    Chunking parts =
        new Chunking(
            KernelContext.bytes(work),
            nvls.heads().size(),
            size,
            Math.min(work.chunkBytes(), slot));
    Reduction reduction = context.reduction(work);
    Reduction prepared = new PreparedReduction(reduction);
    List<Tree> trees = nvls.trees();
    return new AllReduce(
        context.nvls(),
        context.call(work),
        parts,
        reduction,
        size,
        trees.stream()
            .map(t -> context.inSlots(work, t.down(), TreeKernels.parent(t), prepared))
            .toArray(Primitives[]::new),
        trees.stream()
            .map(t -> context.inSlots(work, TreeKernels.parent(t), t.down(), null))
            .toArray(Primitives[]::new));
  }

  /**
   * All-reduce by NVLS inside each machine and by trees between the machines' heads of one number.
   * The heads' parts take the two trees by turns, chunk after chunk.
   *
   * <p>A head combines its machine's data in its own slot of the broadcast connection, where what
   * comes from the other machines is added on the way up, and where the result comes on the way
   * down; from there it goes to the other ranks of the machine. Nobody waits for a later phase of a
   * turn of anybody else, nor for a later chunk of the same phase, and a turn has fewer chunks than
   * a connection has slots, even with those of the other tree; so the turns never wait in a circle.
   */
  private static final class AllReduce implements Kernel {
    private final NvlsEnds ends;
    private final Call call;
    private final Chunking parts;
    private final Reduction reduction;
    private final int size;
    private final Primitives[] up;
    private final Primitives[] down;

    /**
     * A kernel.
     *
     * @param reduction of the ranks' own data
     * @param size bytes of an element
     * @param up for each tree, from the children to the parent, with a reduction that does not
     *     prepare; nothing where this rank is no head
     * @param down for each tree, from the parent to the children, without a reduction
     */
    AllReduce(
        NvlsEnds ends,
        Call call,
        Chunking parts,
        Reduction reduction,
        int size,
        Primitives[] up,
        Primitives[] down) {
      this.ends = ends;
      this.call = call;
      this.parts = parts;
      this.reduction = reduction;
      this.size = size;
      this.up = up;
      this.down = down;
    }

    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      ends.begin(call);
      int headRank = ends.nvls().headRank();
      int first = Math.max(0, headRank);
      for (boolean more = parts.first(); more; first += NvlsEnds.CHUNKS_A_TURN) {
        long turn = parts.begin();
        int chunks = ends.scatterTurn(parts, reduction, send, size);
        if (headRank >= 0) {
          for (int chunk = 0; chunk < chunks; chunk++, parts.next()) {
            goUp(up[first + chunk & 1], chunk, parts.bytes(headRank));
          }
          parts.from(turn);
          for (int chunk = 0; chunk < chunks; chunk++, parts.next()) {
            goDown(down[first + chunk & 1], parts.bytes(headRank));
          }
          parts.from(turn);
        }
        more = ends.gatherTurn(parts, chunks, recv);
      }
    }

    private void goUp(Primitives tree, int chunk, int bytes) {
      if (bytes == 0) {
        return;
      }
      long slot = ends.reduceAhead(reduction, chunk, bytes, size);
      HostMemory own = ends.own();
      if (tree.sends.length == 0) {
        tree.recvReduceCopy(own, slot, own, slot, bytes);
      } else if (tree.recvs.length == 0) {
        tree.send(own, slot, bytes);
      } else {
        tree.recvReduceSend(own, slot, bytes);
      }
    }

    private void goDown(Primitives tree, int bytes) {
      if (bytes == 0) {
        return;
      }
      long slot = ends.slotAhead();
      HostMemory own = ends.own();
      if (tree.recvs.length == 0) {
        tree.send(own, slot, bytes);
      } else if (tree.sends.length == 0) {
        tree.recv(own, slot, bytes);
      } else {
        tree.recvCopySend(own, slot, bytes);
      }
      ends.spread(bytes);
    }
  }
}
