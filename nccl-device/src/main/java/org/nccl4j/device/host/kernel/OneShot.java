package org.nccl4j.device.host.kernel;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.memory.HostMemory;

/** The one-shot kernels: who needs data gets them straight from whoever has them. */
final class OneShot {
  private OneShot() {}

  /** All-reduce: everybody's data to all, combined by everybody. */
  record AllReduce(Primitives all, Parts parts) implements Kernel {
    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      for (boolean more = parts.first(); more; more = parts.next()) {
        long at = parts.offset(0);
        all.send(send, at, parts.bytes(0));
        all.reduceInOrder(send, at, recv, at, parts.bytes(0), Primitives.RECEIVE);
      }
    }
  }

  /** Broadcast: the root's data to all. */
  record Broadcast(Primitives all, Parts parts, boolean isRoot) implements Kernel {
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
  record Reduce(Primitives all, Parts parts, boolean isRoot) implements Kernel {
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

  /** All-gather: everybody's part to all. */
  record AllGather(Primitives all, Primitives[] from, Parts parts, long partBytes, int rank)
      implements Kernel {
    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      long own = rank * partBytes;
      boolean inPlace = send.address() == recv.address() + own;
      for (boolean more = parts.first(); more; more = parts.next()) {
        long at = parts.offset(0);
        if (inPlace) {
          all.send(send, at, parts.bytes(0));
        } else {
          all.copySend(send, at, recv, own + at, parts.bytes(0));
        }
        for (Primitives peer : from) {
          peer.recv(recv, peer.recvs[0].peer * partBytes + at, parts.bytes(0));
        }
      }
    }
  }

  /** Reduce-scatter: everybody's part straight to its owner. */
  record ReduceScatter(Primitives all, Primitives[] to, Parts parts, long partBytes, int rank)
      implements Kernel {
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
