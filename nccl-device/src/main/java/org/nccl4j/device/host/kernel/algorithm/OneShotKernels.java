package org.nccl4j.device.host.kernel.algorithm;

import java.util.List;
import java.util.stream.Stream;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.Chunking;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.Primitives;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.CollectiveWork;

/** The one-shot kernels: each rank sends its data straight to the ranks that need them. */
public final class OneShotKernels implements HostAlgorithm {
  @Override
  public Kernel kernel(KernelContext context, CollectiveWork work) {
    long bytes = KernelContext.bytes(work);
    List<Integer> others = context.others();
    Primitives all = context.primitives(work, others, others, context.reductionOfAll(work));
    Chunking whole = context.parts(work, work.count(), 1);
    int rank = context.spec.rank();
    boolean isRoot = rank == work.root();
    List<Integer> root = List.of(work.root());
    return switch (work.operation()) {
      case ALL_REDUCE -> PairReduce.or(context, work, new AllReduce(all, whole));
      case ALL_GATHER -> allGather(context, work, all, whole);
      case REDUCE_SCATTER -> new ReduceScatter(all, context.to(work), whole, bytes, rank);
      case BROADCAST -> {
        Primitives from = isRoot ? all : context.primitives(work, root, List.of(), null);
        yield new Broadcast(from, whole, expected(context, work, from), isRoot);
      }
      case REDUCE ->
          new Reduce(
              isRoot
                  ? all
                  : context.primitives(work, List.of(), root, context.reductionOfAll(work)),
              whole,
              isRoot);
      default -> throw KernelContext.none(work);
    };
  }

  private static Kernel allGather(
      KernelContext context, CollectiveWork work, Primitives all, Chunking whole) {
    Primitives[] from = context.from(work);
    ExpectedChunks[] expected =
        Stream.of(from).map(peer -> expected(context, work, peer)).toArray(ExpectedChunks[]::new);
    return new AllGather(
        all, from, expected, whole, KernelContext.bytes(work), context.spec.rank());
  }

  private static ExpectedChunks expected(
      KernelContext context, CollectiveWork work, Primitives from) {
    return new ExpectedChunks(from, context.parts(work, work.count(), 1));
  }

  /**
   * All-reduce: everybody's data to all, combined by everybody. A chunk is sent before the one in
   * front of it is awaited, so that what is awaited is under way while this rank sends: over
   * sockets ranks otherwise wait for each other's system calls, a fifth of the time at 512 KiB.
   */
  private record AllReduce(Primitives all, Chunking parts) implements Kernel {
    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      // In place, the result would replace data that other ranks still read.
      all.mayExpose(send.address() != recv.address());
      boolean more = parts.first();
      if (more) {
        all.send(send, parts.offset(0), parts.bytes(0));
      }
      while (more) {
        long at = parts.offset(0);
        int bytes = parts.bytes(0);
        more = parts.next();
        if (more) {
          all.send(send, parts.offset(0), parts.bytes(0));
        }
        all.reduceInOrder(send, at, recv, at, bytes, Primitives.RECEIVE);
      }
    }
  }

  /** Broadcast: the root's data to all. */
  private record Broadcast(Primitives all, Chunking parts, ExpectedChunks expected, boolean isRoot)
      implements Kernel {
    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      boolean inPlace = isRoot && send.address() == recv.address();
      expected.begin();
      for (boolean more = parts.first(); more; more = parts.next()) {
        long at = parts.offset(0);
        if (inPlace) {
          all.send(send, at, parts.bytes(0));
        } else if (isRoot) {
          all.copySend(send, at, recv, at, parts.bytes(0));
        } else {
          expected.expect(recv, 0);
          all.recv(recv, at, parts.bytes(0));
        }
      }
    }
  }

  /** Reduce: everybody's data to the root. */
  private record Reduce(Primitives all, Chunking parts, boolean isRoot) implements Kernel {
    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      for (boolean more = parts.first(); more; more = parts.next()) {
        long at = parts.offset(0);
        if (isRoot) {
          all.reduceInOrder(send, at, recv, at, parts.bytes(0), Primitives.RECEIVE);
        } else {
          all.send(send, at, parts.bytes(0));
        }
      }
    }
  }

  /** All-gather: everybody's part to all, a chunk ahead as in the all-reduce. */
  private record AllGather(
      Primitives all,
      Primitives[] from,
      ExpectedChunks[] expected,
      Chunking parts,
      long partBytes,
      int rank)
      implements Kernel {
    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      boolean inPlace = send.address() == recv.address() + rank * partBytes;
      for (ExpectedChunks chunks : expected) {
        chunks.begin();
      }
      expect(recv);
      boolean more = parts.first();
      if (more) {
        send(send, recv, inPlace);
      }
      while (more) {
        long at = parts.offset(0);
        int bytes = parts.bytes(0);
        more = parts.next();
        if (more) {
          send(send, recv, inPlace);
        }
        expect(recv);
        for (Primitives peer : from) {
          peer.recv(recv, peer.recvs[0].peer * partBytes + at, bytes);
        }
      }
    }

    private void expect(HostMemory recv) {
      for (int peer = 0; peer < from.length; peer++) {
        expected[peer].expect(recv, from[peer].recvs[0].peer * partBytes);
      }
    }

    /** Sends the current chunk of this rank's part. */
    private void send(HostMemory send, HostMemory recv, boolean inPlace) {
      long at = parts.offset(0);
      if (inPlace) {
        all.send(send, at, parts.bytes(0));
      } else {
        all.copySend(send, at, recv, rank * partBytes + at, parts.bytes(0));
      }
    }
  }

  /** Reduce-scatter: everybody's part straight to its owner. */
  private record ReduceScatter(
      Primitives all, Primitives[] to, Chunking parts, long partBytes, int rank) implements Kernel {
    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      for (boolean more = parts.first(); more; more = parts.next()) {
        long at = parts.offset(0);
        for (Primitives peer : to) {
          peer.send(send, peer.sends[0].peer * partBytes + at, parts.bytes(0));
        }
        long own = rank * partBytes + at;
        all.reduceInOrder(send, own, recv, at, parts.bytes(0), Primitives.RECEIVE);
      }
    }
  }
}
