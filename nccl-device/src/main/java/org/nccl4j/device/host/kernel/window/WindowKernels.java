package org.nccl4j.device.host.kernel.window;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.BufferCopies;
import org.nccl4j.device.host.kernel.protocol.Call;
import org.nccl4j.device.host.kernel.protocol.Copies;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.memory.CacheShare;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.reduce.Operands;
import org.nccl4j.device.host.reduce.Reduction;
import org.nccl4j.device.host.reduce.Reductions;
import org.nccl4j.device.kernel.CallText;
import org.nccl4j.device.kernel.WindowWork;
import org.nccl4j.device.symmetric.SymmetricSpace;
import org.nccl4j.device.symmetric.WindowView;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/**
 * Operations straight between windows: between two barriers, a rank reads from peers' windows or
 * writes into them. Elements are combined in the order of the ranks, so all get the same bits.
 * Owned by the thread that runs the communicator's current kernel.
 */
public final class WindowKernels implements Kernel {
  /**
   * Bytes of a piece. It is small enough to stay in the first-level cache between writing and
   * reading.
   */
  private static final int PIECE = 16 << 10;

  private final WindowWork work;
  private final Call call;
  private final int self;
  private final int n;
  private final TeamBarrier arrivals;
  private final Reduction reduction;
  private final Operands operands = new Operands();
  private final HostMemory sum;
  private final HostMemory prepared;
  private final HostMemory[] sends;
  private final HostMemory[] recvs;
  private final long bytes;
  private final int element;
  private final BufferCopies copies;
  private final BufferCopies peers;

  /** True if what is received leaves the caches before anybody reads it. */
  private final boolean leaves;

  /**
   * An operation.
   *
   * @param scratch of two pieces
   */
  public WindowKernels(
      WindowWork work,
      SymmetricSpace space,
      TeamBarrier arrivals,
      HostMemory scratch,
      BufferCopies copies,
      CacheShare cache) {
    this.work = work;
    this.call = new Call(work.signature(), () -> CallText.of(work.shape(), work.count()));
    this.self = space.place();
    this.n = space.size();
    this.arrivals = arrivals;
    this.element = work.type().bytes();
    this.bytes = work.count() * element;
    this.reduction =
        work.operation().reduces() ? Reductions.ofAll(work.type(), work.op(), n) : null;
    this.sum = scratch.slice(0, PIECE);
    this.prepared = scratch.slice(PIECE, PIECE);
    this.sends = views(work.send());
    this.recvs = views(work.recv());
    this.copies = copies;
    this.peers = copies.ofPeers();
    this.leaves = cache.isExceeded(bytes * work.operation().recvParts(n, /* isRoot= */ true));
  }

  public static int scratchBytes() {
    return 2 * PIECE;
  }

  private static HostMemory[] views(WindowView window) {
    return window == null
        ? null
        : window.peers().stream().map(HostMemory::of).toArray(HostMemory[]::new);
  }

  @Override
  @HotPath
  public void run(HostMemory send, HostMemory recv) {
    long sendAt = sends == null ? -1 : send.address() - work.send().address();
    long recvAt = recvs == null ? -1 : recv.address() - work.recv().address();
    if (work.operation() == Operation.BROADCAST && self == work.root()) {
      // All others read it from there.
      copies.copyAll(send, 0, recv, 0, bytes, /* leaves= */ false);
    }
    arrivals.begin(signature(work, sendAt, recvAt), call);
    switch (work.operation()) {
      case ALL_REDUCE -> allReduce(sendAt, recv, recvAt);
      case REDUCE_SCATTER -> combine(sendAt + self * bytes, 0, bytes, recv, -1);
      case REDUCE -> {
        if (self == work.root()) {
          combine(sendAt, 0, bytes, recv, -1);
        }
      }
      case BROADCAST -> {
        if (self != work.root()) {
          peers.copyAll(recvs[work.root()], recvAt, recv, 0, bytes, leaves);
        }
      }
      case ALL_GATHER -> give(send, 0, recvAt + self * bytes);
      case ALL_TO_ALL -> give(send, bytes, recvAt + self * bytes);
      case SCATTER -> {
        if (self == work.root()) {
          give(send, bytes, recvAt);
        }
      }
      case GATHER -> gather(sendAt, recv);
      default -> throw new IllegalStateException(work.operation() + " between windows");
    }
    arrivals.end();
  }

  /** Differs, almost surely, between operations that do not belong together. */
  public static long signature(WindowWork work, long sendAt, long recvAt) {
    long hash = work.operation().ordinal() * 31L + work.algorithm().ordinal();
    hash = hash * 31 + work.type().ordinal();
    hash = hash * 31 + work.op().ordinal();
    hash = hash * 31 + work.root();
    hash = (hash * 31 + work.count() * work.type().bytes()) * 0x9E3779B97F4A7C15L;
    hash = hash + sendAt + 1 + (work.send() == null ? 0 : work.send().number() << 40);
    hash = hash * 0x9E3779B97F4A7C15L;
    return hash + recvAt + 1 + (work.recv() == null ? 0 : work.recv().number() << 40);
  }

  private void allReduce(long sendAt, HostMemory recv, long recvAt) {
    if (work.algorithm() == Algorithm.DIRECT_ONE_SHOT) {
      combine(sendAt, 0, bytes, recv, -1);
      return;
    }
    long part = (work.count() + n - 1) / n * element;
    long begin = Math.min(bytes, self * part);
    combine(sendAt, begin, Math.min(bytes, begin + part), null, recvAt);
  }

  /**
   * Combines everybody's bytes from begin to end.
   *
   * @param sendAt where byte 0 is in the send windows
   * @param target where they go to, from its beginning, or null
   * @param recvAt where byte 0 is in the receive windows of all, or -1
   */
  private void combine(long sendAt, long begin, long end, HostMemory target, long recvAt) {
    for (long at = begin; at < end; at += PIECE) {
      int piece = (int) Math.min(PIECE, end - at);
      combinePiece(sendAt + at, piece);
      if (target != null) {
        copySum(copies, target, at, piece);
      }
      for (int distance = 0; recvAt >= 0 && distance < n; distance++) {
        copySum(of(distance), recvs[(self + distance) % n], recvAt + at, piece);
      }
    }
  }

  private void copySum(BufferCopies by, HostMemory target, long at, int piece) {
    if (leaves) {
      by.copySum(sum, 0, target, at, piece);
    } else {
      by.copy(sum, 0, target, at, piece, /* leaves= */ false);
    }
  }

  /** Copies from or to the windows of the rank that is so many places further. */
  private BufferCopies of(int distance) {
    return distance == 0 ? copies : peers;
  }

  private void combinePiece(long at, int piece) {
    int count = piece / element;
    if (n == 1) {
      Copies.copy(sends[0], at, sum, 0, piece);
      return;
    }
    if (reduction.widens()) {
      operands.clear();
      for (HostMemory send : sends) {
        operands.add(send, at);
      }
      reduction.reduceAll(operands, sum, 0, count);
    } else if (reduction.hasPrepare()) {
      reduction.prepare(sends[0], at, sum, 0, count);
      for (int place = 1; place < n; place++) {
        reduction.prepare(sends[place], at, prepared, 0, count);
        reduction.reduce(sum, 0, prepared, 0, sum, 0, count);
      }
    } else {
      reduction.reduce(sends[0], at, sends[1], at, sum, 0, count);
      for (int place = 2; place < n; place++) {
        reduction.reduce(sum, 0, sends[place], at, sum, 0, count);
      }
    }
    if (reduction.hasFinish()) {
      reduction.finish(sum, 0, count);
    }
  }

  /**
   * Writes a part of this rank's data for each rank, or the same for all, to the same place of
   * each.
   */
  private void give(HostMemory send, long step, long recvAt) {
    for (int distance = 0; distance < n; distance++) {
      int place = (self + distance) % n;
      HostMemory target = recvs[place];
      if (place == self && isSame(send, place * step, recvAt)) {
        continue;
      }
      of(distance).copyAll(send, place * step, target, recvAt, bytes, leaves);
    }
  }

  /** True if a place of the send buffer is, by another mapping, one of the receive window. */
  private boolean isSame(HostMemory send, long sendAt, long recvAt) {
    return send.address() + sendAt == work.recv().address() + recvAt;
  }

  private void gather(long sendAt, HostMemory recv) {
    for (int distance = 0; self == work.root() && distance < n; distance++) {
      int place = (self + distance) % n;
      boolean same =
          place == self && work.send().address() + sendAt == recv.address() + place * bytes;
      if (!same) {
        of(distance).copyAll(sends[place], sendAt, recv, place * bytes, bytes, leaves);
      }
    }
  }
}
