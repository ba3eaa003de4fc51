package org.nccl4j.device.host.kernel.algorithm;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.nvls.NvlsEnds;
import org.nccl4j.device.host.kernel.protocol.Call;
import org.nccl4j.device.host.kernel.protocol.Chunking;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.reduce.Reduction;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.Nvls;

/**
 * The NVLS kernels. On a GPU groups of warps scatter, reduce and gather side by side; here one
 * thread takes turns.
 */
public final class NvlsKernels implements HostAlgorithm {
  @Override
  public Kernel kernel(KernelContext context, CollectiveWork work) {
    NvlsEnds ends = context.nvls();
    if (ends == null || !Nvls.has(work.operation(), work.type(), work.op())) {
      throw KernelContext.none(work);
    }
    Nvls nvls = ends.nvls();
    int size = work.type().bytes();
    long bytes = KernelContext.bytes(work);
    int chunk = Math.min(work.chunkBytes(), nvls.layout().chunkBytes());
    Chunking whole = new Chunking(bytes, 1, size, chunk);
    Call call = context.call(work);
    Reduction reduction = context.reduction(work);
    return switch (work.operation()) {
      case ALL_REDUCE ->
          new AllReduce(
              ends, call, new Chunking(bytes, nvls.heads().size(), size, chunk), reduction, size);
      case REDUCE_SCATTER -> new ReduceScatter(ends, call, whole, bytes, reduction, size);
      case ALL_GATHER -> new AllGather(ends, call, whole, bytes);
      default -> throw KernelContext.none(work);
    };
  }

  /** All-reduce: each head combines a part of every loop. */
  private record AllReduce(NvlsEnds ends, Call call, Chunking parts, Reduction reduction, int size)
      implements Kernel {
    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      ends.begin(call);
      int headRank = ends.nvls().headRank();
      for (boolean more = parts.first(); more; ) {
        long turn = parts.begin();
        int chunks = ends.scatterTurn(parts, reduction, send, size);
        for (int chunk = 0; headRank >= 0 && chunk < chunks; chunk++, parts.next()) {
          ends.reduceBroadcast(reduction, parts.bytes(headRank), size);
        }
        parts.from(turn);
        more = ends.gatherTurn(parts, chunks, recv);
      }
    }
  }

  /** Reduce-scatter: every rank is the head of its own part. */
  private record ReduceScatter(
      NvlsEnds ends, Call call, Chunking parts, long partBytes, Reduction reduction, int size)
      implements Kernel {
    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      ends.begin(call);
      int heads = ends.nvls().heads().size();
      for (boolean more = parts.first(); more; ) {
        long turn = parts.begin();
        int chunks = 0;
        do {
          for (int head = 0; head < heads; head++) {
            long at = ends.nvls().heads().get(head) * partBytes + parts.offset(0);
            ends.scatter(head, reduction, send, at, parts.bytes(0), size);
          }
          chunks++;
          more = parts.next();
        } while (more && chunks < NvlsEnds.CHUNKS_A_TURN);
        parts.from(turn);
        for (int chunk = 0; chunk < chunks; chunk++) {
          ends.reduce(reduction, recv, parts.offset(0), parts.bytes(0), size);
          more = parts.next();
        }
      }
    }
  }

  /** All-gather: every rank gives out its own part. */
  private record AllGather(NvlsEnds ends, Call call, Chunking parts, long partBytes)
      implements Kernel {
    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      ends.begin(call);
      int heads = ends.nvls().heads().size();
      for (boolean more = parts.first(); more; ) {
        long turn = parts.begin();
        int chunks = 0;
        do {
          ends.broadcast(send, parts.offset(0), parts.bytes(0));
          chunks++;
          more = parts.next();
        } while (more && chunks < NvlsEnds.CHUNKS_A_TURN);
        parts.from(turn);
        for (int chunk = 0; chunk < chunks; chunk++) {
          for (int head = 0; head < heads; head++) {
            long at = ends.nvls().heads().get(head) * partBytes + parts.offset(0);
            ends.gather(head, recv, at, parts.bytes(0));
          }
          more = parts.next();
        }
      }
    }
  }
}
