package org.nccl4j.device.host.kernel.protocol;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.reduce.Reduction;

/**
 * The protocols in which the data of a step lie in a slot as they are, so that a receiver can
 * combine them in place. In Simple the sender fills the slot, then publishes its tail. In LL128 it
 * fills the slot, then the flag in front of the data, so that a message of a cache line comes in
 * one flight.
 */
public final class SlotPrimitives extends Primitives {
  /**
   * Bytes of a piece. It is small enough to stay in the first-level cache between writing and
   * reading.
   */
  private static final int PIECE = 16 << 10;

  private final HostMemory scratch;
  private final boolean ll128;

  /**
   * Primitives between some peers.
   *
   * @param ll128 whether by LL128 instead of Simple
   * @param scratch at least 16 KiB
   */
  public SlotPrimitives(
      int rank,
      Waiter waiter,
      Call call,
      RecvEnd[] recvs,
      SendEnd[] sends,
      Reduction reduction,
      int elementBytes,
      HostMemory scratch,
      boolean ll128) {
    super(rank, waiter, call, recvs, sends, reduction, elementBytes);
    this.scratch = scratch;
    this.ll128 = ll128;
  }

  /** Returns the offset of an end's data of the current step. */
  @HotPath
  private long slot(ConnectionEnd end) {
    return ll128 ? end.ll128Data() : end.simpleSlot();
  }

  @Override
  @HotPath
  void step(
      HostMemory source,
      long sourceOffset,
      HostMemory target,
      long targetOffset,
      int bytes,
      int mode) {
    if (bytes == 0) {
      return;
    }
    boolean receive = (mode & RECEIVE) != 0;
    await(mode, bytes);
    if (mode == SEND && target != null && bytes <= PIECE && !prepares()) {
      // The own copy is made while the data are under way.
      fill(source, sourceOffset, 0, 0, bytes);
      post(mode, bytes);
      Copies.copy(source, sourceOffset, target, targetOffset, bytes);
      return;
    }
    HostMemory first = target == null ? sends[0].memory() : target;
    long firstOffset = target == null ? slot(sends[0]) : targetOffset;
    for (int at = 0; at < bytes; at += PIECE) {
      int piece = Math.min(PIECE, bytes - at);
      if (receive) {
        take(source, sourceOffset + at, first, firstOffset + at, at, piece);
        if (source != null && target != null && reduction.hasFinish()) {
          reduction.finish(first, firstOffset + at, piece / elementBytes);
        }
      } else {
        load(source, sourceOffset + at, first, firstOffset + at, piece);
      }
      if ((mode & SEND) != 0) {
        fill(first, firstOffset + at, target == null ? 1 : 0, at, piece);
      }
    }
    post(mode, bytes);
  }

  private void await(int mode, int bytes) {
    if ((mode & SEND) != 0) {
      for (SendEnd end : sends) {
        if (ll128) {
          end.awaitLl128Credit(waiter, bytes);
        } else {
          end.awaitCredit(waiter);
        }
      }
    }
    if ((mode & RECEIVE) != 0) {
      for (RecvEnd end : recvs) {
        if (ll128) {
          end.awaitLl128(waiter, call, bytes);
        } else {
          end.awaitData(waiter, call);
        }
      }
    }
  }

  private void fill(HostMemory from, long fromOffset, int firstEnd, int at, int bytes) {
    for (int s = firstEnd; s < sends.length; s++) {
      SendEnd end = sends[s];
      copy(from, fromOffset, end.memory(), slot(end) + at, bytes);
    }
  }

  private void post(int mode, int bytes) {
    if ((mode & SEND) != 0) {
      for (SendEnd end : sends) {
        if (ll128) {
          end.postLl128(call);
        } else {
          end.post(bytes, call);
        }
      }
    }
    if ((mode & RECEIVE) != 0) {
      for (RecvEnd end : recvs) {
        if (ll128) {
          end.releaseLazily();
        } else {
          end.release();
        }
      }
    }
  }

  @Override
  @HotPath
  public void reduceInOrder(
      HostMemory source,
      long sourceOffset,
      HostMemory target,
      long targetOffset,
      int bytes,
      int mode) {
    if (bytes == 0) {
      return;
    }
    await(mode, bytes);
    for (int at = 0; at < bytes; at += PIECE) {
      int piece = Math.min(PIECE, bytes - at);
      combineInOrder(source, sourceOffset + at, target, targetOffset + at, at, piece);
      if (reduction.hasFinish()) {
        reduction.finish(target, targetOffset + at, piece / elementBytes);
      }
      if ((mode & SEND) != 0) {
        fill(target, targetOffset + at, 0, at, piece);
      }
    }
    post(mode, bytes);
  }

  private void combineInOrder(
      HostMemory source, long sourceOffset, HostMemory to, long toOffset, int at, int bytes) {
    // The sum in place would overwrite own data that come third or later. Save them first.
    HostMemory own = source;
    long ownOffset = sourceOffset;
    if (lower > 1 || reduction.hasPrepare()) {
      load(source, sourceOffset, scratch, 0, bytes);
      own = scratch;
      ownOffset = 0;
    }
    int count = bytes / elementBytes;
    HostMemory sum = null;
    long sumOffset = 0;
    for (int place = 0, r = 0; place <= recvs.length; place++) {
      HostMemory next = own;
      long nextOffset = ownOffset;
      if (place != lower) {
        next = recvs[r].memory();
        nextOffset = slot(recvs[r]) + at;
        r++;
      }
      if (place == 0) {
        sum = next;
        sumOffset = nextOffset;
      } else {
        reduction.reduce(sum, sumOffset, next, nextOffset, to, toOffset, count);
        sum = to;
        sumOffset = toOffset;
      }
    }
  }

  private boolean prepares() {
    return reduction != null && reduction.hasPrepare();
  }

  /** Own data, as they enter a combination. */
  private void load(HostMemory source, long sourceOffset, HostMemory to, long toOffset, int bytes) {
    if (!prepares()) {
      copy(source, sourceOffset, to, toOffset, bytes);
    } else {
      reduction.prepare(source, sourceOffset, to, toOffset, bytes / elementBytes);
    }
  }

  /** Copies, in LL128 last what lies beside the flag. */
  private void copy(HostMemory from, long fromOffset, HostMemory to, long toOffset, int bytes) {
    if (ll128) {
      Copies.copyFlagLineLast(from, fromOffset, to, toOffset, bytes);
    } else {
      Copies.copy(from, fromOffset, to, toOffset, bytes);
    }
  }

  /** A piece of what the peers sent, combined with own data if there are any. */
  private void take(
      HostMemory source, long sourceOffset, HostMemory to, long toOffset, int at, int bytes) {
    RecvEnd end = recvs[0];
    if (source == null) {
      Copies.copy(end.memory(), slot(end) + at, to, toOffset, bytes);
      return;
    }
    HostMemory own = source;
    long ownOffset = sourceOffset;
    if (reduction.hasPrepare()) {
      reduction.prepare(source, sourceOffset, scratch, 0, bytes / elementBytes);
      own = scratch;
      ownOffset = 0;
    }
    int count = bytes / elementBytes;
    reduction.reduce(own, ownOffset, end.memory(), slot(end) + at, to, toOffset, count);
    for (int r = 1; r < recvs.length; r++) {
      end = recvs[r];
      reduction.reduce(to, toOffset, end.memory(), slot(end) + at, to, toOffset, count);
    }
  }
}
