package org.nccl4j.device.host.kernel.nvls;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.host.kernel.protocol.Call;
import org.nccl4j.device.host.kernel.protocol.Copies;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.window.TeamBarrier;
import org.nccl4j.device.host.kernel.window.WindowKernels;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.reduce.Reduction;
import org.nccl4j.device.host.reduce.Reductions;
import org.nccl4j.device.kernel.CallText;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.WindowWork;
import org.nccl4j.device.symmetric.SymmetricSpace;
import org.nccl4j.device.symmetric.WindowView;

/**
 * NVLS on the users' own buffers, which all ranks have registered. The windows of all ranks stand
 * for a switch's multicast addresses. No rank copies anything for another; a head loads its part
 * combined from all send windows, and stores it into all receive windows. Owned by the thread that
 * runs the communicator's current kernel.
 */
public final class NvlsInPlace implements Kernel {
  private static final int PIECE = 16 << 10;

  private final WindowWork work;
  private final Call call;
  private final Nvls nvls;
  private final int self;
  private final TeamBarrier arrivals;
  private final Reduction reduction;

  /** The mean of floating-point numbers, of which the reduction is the sum; else null. */
  private final MeanFromSum mean;

  private final HostMemory scratch;

  /** All ranks' windows; null where none is needed. */
  private final MulticastAccess sends;

  private final MulticastAccess recvs;
  private final long bytes;
  private final int size;

  /**
   * An operation.
   *
   * @param nvls of one machine, with this rank
   * @param scratch of a piece
   */
  public NvlsInPlace(
      WindowWork work, Nvls nvls, SymmetricSpace space, TeamBarrier arrivals, HostMemory scratch) {
    this.work = work;
    this.call = new Call(work.signature(), () -> CallText.of(work.shape(), work.count()));
    this.nvls = nvls;
    this.self = space.place();
    this.arrivals = arrivals;
    this.scratch = scratch.slice(0, PIECE);
    boolean scales = work.op() == RedOp.AVG && work.type().isFloatingPoint();
    this.size = work.type().bytes();
    this.bytes = work.count() * size;
    this.reduction =
        work.operation().reduces()
            ? Reductions.of(work.type(), scales ? RedOp.SUM : work.op(), nvls.members().size())
            : null;
    this.mean =
        work.operation().reduces() && scales
            ? new MeanFromSum(work.type(), nvls.members().size(), scratch.slice(PIECE, 8))
            : null;
    this.sends = all(work.send());
    this.recvs = all(work.recv());
  }

  private MulticastAccess all(WindowView window) {
    return window == null ? null : new MulticastAccess(window.multicast().views(), nvls.members());
  }

  @Override
  @HotPath
  public void run(HostMemory send, HostMemory recv) {
    long sendAt = sends == null ? -1 : send.address() - work.send().address();
    long recvAt = recvs == null ? -1 : recv.address() - work.recv().address();
    arrivals.begin(WindowKernels.signature(work, sendAt, recvAt), call);
    if (nvls.headRank() >= 0) {
      switch (work.operation()) {
        case ALL_REDUCE -> allReduce(sendAt, recvAt);
        case REDUCE_SCATTER -> reduceScatter(sendAt + self * bytes, recv);
        case ALL_GATHER -> allGather(send, recvAt + self * bytes);
        default ->
            throw new InternalErrorException(
                "NVLS has no " + work.operation(), "report this: it should not have been chosen");
      }
    }
    arrivals.end();
  }

  private void allReduce(long sendAt, long recvAt) {
    int heads = nvls.heads().size();
    long part = (work.count() + heads - 1) / heads * size;
    long end = Math.min(bytes, (nvls.headRank() + 1) * part);
    for (long at = nvls.headRank() * part; at < end; at += PIECE) {
      int piece = (int) Math.min(PIECE, end - at);
      combine(sendAt + at, piece);
      recvs.store(scratch, 0, recvAt + at, piece);
    }
  }

  private void reduceScatter(long sendAt, HostMemory recv) {
    for (long at = 0; at < bytes; at += PIECE) {
      int piece = (int) Math.min(PIECE, bytes - at);
      combine(sendAt + at, piece);
      Copies.copy(scratch, 0, recv, at, piece);
    }
  }

  private void allGather(HostMemory send, long recvAt) {
    for (long at = 0; at < bytes; at += PIECE) {
      recvs.store(send, at, recvAt + at, (int) Math.min(PIECE, bytes - at));
    }
  }

  private void combine(long at, int piece) {
    sends.loadReduce(reduction, at, scratch, 0, piece / size, size);
    if (mean == null) {
      reduction.finish(scratch, 0, piece / size);
    } else {
      mean.finish(sends, at, scratch, piece / size);
    }
  }
}
