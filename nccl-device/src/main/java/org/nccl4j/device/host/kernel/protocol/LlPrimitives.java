package org.nccl4j.device.host.kernel.protocol;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.reduce.Reduction;

/**
 * The LL protocol: every word carries its own flag.
 *
 * <p>Its steps go the same way as those of {@link SlotPrimitives}, and share no code with them:
 * here data become readable only by being unpacked into scratch memory, word for word with its
 * wait, there they are combined where they lie after one wait for all. Their common parts are in
 * {@link Primitives}, the ends and {@link Reduction}.
 */
public final class LlPrimitives extends Primitives {
  private final HostMemory scratch;
  private final long other;

  /**
   * Primitives between some peers.
   *
   * @param scratch at least three times the data of a slot, and 24 bytes for each peer
   */
  public LlPrimitives(
      int rank,
      SpinWait waiter,
      Call call,
      RecvEnd[] recvs,
      SendEnd[] sends,
      Reduction reduction,
      int elementBytes,
      HostMemory scratch) {
    super(rank, waiter, call, recvs, sends, reduction, elementBytes);
    this.scratch = scratch;
    this.other = scratch.size() / 3;
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
    boolean passed = target == null || (mode & PARTIAL) != 0;
    HostMemory outcome = passed ? scratch : target;
    long outcomeOffset = passed ? 0 : targetOffset;
    if ((mode & RECEIVE) != 0) {
      take(source, sourceOffset, outcome, outcomeOffset, bytes);
      if (source != null && !passed && reduction.hasFinish()) {
        reduction.finish(outcome, outcomeOffset, bytes / elementBytes);
      }
    } else if (reduction != null && reduction.hasPrepare()) {
      reduction.prepare(source, sourceOffset, outcome, outcomeOffset, bytes / elementBytes);
    } else if (target == null) {
      outcome = source;
      outcomeOffset = sourceOffset;
    } else {
      Copies.copy(source, sourceOffset, target, targetOffset, bytes);
    }
    if ((mode & SEND) != 0) {
      packToAll(outcome, outcomeOffset, bytes);
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
    if (reduction.widens()) {
      takeAll(source, sourceOffset, lower, target, targetOffset, bytes);
      if ((mode & SEND) != 0) {
        packToAll(target, targetOffset, bytes);
      }
      return;
    }
    int count = bytes / elementBytes;
    HostMemory own = source;
    long ownOffset = sourceOffset;
    if (reduction.hasPrepare()) {
      own = scratch;
      ownOffset = 2 * other;
      reduction.prepare(source, sourceOffset, own, ownOffset, count);
    }
    for (int place = 0, r = 0; place <= recvs.length; place++) {
      HostMemory next = own;
      long nextOffset = ownOffset;
      if (place != lower) {
        next = scratch;
        nextOffset = place == 0 ? 0 : other;
        unpack(recvs[r++], scratch, nextOffset, bytes);
      }
      if (place == 1) {
        HostMemory sum = lower == 0 ? own : scratch;
        long sumOffset = lower == 0 ? ownOffset : 0;
        reduction.reduce(sum, sumOffset, next, nextOffset, scratch, 0, count);
      } else if (place > 1) {
        reduction.reduce(scratch, 0, next, nextOffset, scratch, 0, count);
      }
    }
    Copies.copy(scratch, 0, target, targetOffset, bytes);
    if (reduction.hasFinish()) {
      reduction.finish(target, targetOffset, count);
    }
    if ((mode & SEND) != 0) {
      packToAll(target, targetOffset, bytes);
    }
  }

  private void packToAll(HostMemory from, long fromOffset, int bytes) {
    for (SendEnd end : sends) {
      end.awaitCredit(waiter);
      LlLines.pack(from, fromOffset, bytes, end.memory(), end.llSlot(), end.llFlag(call));
      end.next(bytes);
    }
  }

  /** Receives the peers' data, and combines them with own data if there are any. */
  private void take(HostMemory source, long sourceOffset, HostMemory to, long toOffset, int bytes) {
    if (source == null) {
      unpack(recvs[0], to, toOffset, bytes);
      return;
    }
    if (combinesAll()) {
      takeAll(source, sourceOffset, 0, to, toOffset, bytes);
      return;
    }
    int count = bytes / elementBytes;
    HostMemory own = source;
    long ownOffset = sourceOffset;
    if (reduction.hasPrepare()) {
      reduction.prepare(source, sourceOffset, scratch, other, count);
      own = scratch;
      ownOffset = other;
    }
    unpack(recvs[0], scratch, 0, bytes);
    reduction.reduce(own, ownOffset, scratch, 0, to, toOffset, count);
    for (int r = 1; r < recvs.length; r++) {
      unpack(recvs[r], scratch, other, bytes);
      reduction.reduce(to, toOffset, scratch, other, to, toOffset, count);
    }
  }

  /**
   * Receives the peers' data and combines them with own data all at once, as many bytes at a time
   * as all peers have room for.
   *
   * @param ownPlace peers whose data come before the own
   */
  @HotPath
  private void takeAll(
      HostMemory source, long sourceOffset, int ownPlace, HostMemory to, long toOffset, int bytes) {
    int room = (int) Math.min(bytes, (scratch.size() - other) / recvs.length);
    room = Math.max(8, room & ~7);
    for (int at = 0; at < bytes; at += room) {
      int some = Math.min(room, bytes - at);
      operands.clear();
      for (int r = 0; r < recvs.length; r++) {
        if (r == ownPlace) {
          addOwn(source, sourceOffset + at);
        }
        long place = other + (long) r * room;
        LlLines.unpack(recvs[r], at, scratch, place, some, call, waiter);
        operands.add(scratch, place);
      }
      if (ownPlace == recvs.length) {
        addOwn(source, sourceOffset + at);
      }
      reduction.reduceAll(operands, to, toOffset + at, some / elementBytes);
    }
    for (RecvEnd end : recvs) {
      end.releaseLazily();
    }
  }

  private void unpack(RecvEnd end, HostMemory to, long toOffset, int bytes) {
    LlLines.unpack(end, to, toOffset, bytes, call, waiter);
    end.releaseLazily();
  }
}
