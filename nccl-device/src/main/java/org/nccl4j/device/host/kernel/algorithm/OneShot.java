package org.nccl4j.device.host.kernel.algorithm;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.Chunking;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.Primitives;
import org.nccl4j.device.host.memory.HostMemory;

/** The one-shot kernels: who needs data gets them straight from whoever has them. */
public final class OneShot {
  private OneShot() {}

  /**
   * All-reduce: everybody's data to all, combined by everybody. A chunk is sent before the one in
   * front of it is awaited, so that what is awaited is under way while this rank sends: over
   * sockets ranks otherwise wait for each other's system calls, a fifth of the time at 512 KiB.
   */
  public record AllReduce(Primitives all, Chunking parts) implements Kernel {
    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      // In place, the result would replace data that other ranks still read.
      all.mayLend(send.address() != recv.address());
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
  public record Broadcast(Primitives all, Chunking parts, boolean isRoot) implements Kernel {
    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      boolean inPlace = isRoot && send.address() == recv.address();
      for (boolean more = parts.first(); more; more = parts.next()) {
        long at = parts.offset(0);
        if (inPlace) {
          all.send(send, at, parts.bytes(0));
        } else if (isRoot) {
          all.copySend(send, at, recv, at, parts.bytes(0));
        } else {
          all.recv(recv, at, parts.bytes(0));
        }
      }
    }
  }

  /** Reduce: everybody's data to the root. */
  public record Reduce(Primitives all, Chunking parts, boolean isRoot) implements Kernel {
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
  public record AllGather(
      Primitives all, Primitives[] from, Chunking parts, long partBytes, int rank)
      implements Kernel {
    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      boolean inPlace = send.address() == recv.address() + rank * partBytes;
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
        for (Primitives peer : from) {
          peer.recv(recv, peer.recvs[0].peer * partBytes + at, bytes);
        }
      }
    }

    /** The current chunk of the own part. */
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
  public record ReduceScatter(
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
