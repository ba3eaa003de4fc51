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

  /** Most bytes of a step in LL128 that is combined and copied at once, without pieces. */
  public static final int SHORT = 1 << 10;

  /** In a mode: the outcome lies in the first sending end's slot. */
  private static final int PASSED = 8;

  private final HostMemory scratch;
  private final BufferCopies copies;
  private final boolean ll128;

  /** True in LL128, if nothing is prepared, finished or widened. */
  private final boolean plain;

  /** True if peers may read from this rank's buffers. */
  private boolean exposes;

  /** True if what is received leaves the caches before anybody reads it. */
  private boolean leaves;

  /** True if what is combined and kept may go through the scratch memory, to leave from there. */
  private boolean stages;

  /** Ends whose peers read the current step from this rank's buffer; 0 unless peers may. */
  private int exposed;

  /**
   * Primitives between some peers.
   *
   * @param ll128 whether by LL128 instead of Simple
   * @param scratch at least 16 KiB
   * @param copies by which data go from buffer to buffer
   */
  public SlotPrimitives(
      int rank,
      SpinWait waiter,
      Call call,
      RecvEnd[] recvs,
      SendEnd[] sends,
      Reduction reduction,
      int elementBytes,
      HostMemory scratch,
      BufferCopies copies,
      boolean ll128) {
    super(rank, waiter, call, recvs, sends, reduction, elementBytes);
    this.scratch = scratch;
    this.copies = copies;
    this.ll128 = ll128;
    this.plain =
        ll128
            && (reduction == null
                || !reduction.hasPrepare() && !reduction.hasFinish() && !reduction.widens());
  }

  /** Returns the offset of an end's data of the current step. */
  @HotPath
  private long slot(ConnectionEnd end) {
    return ll128 ? end.ll128Data() : end.simpleSlot();
  }

  @Override
  public void leaves(boolean does) {
    leaves = does;
    stages = does && scratch.size() >= 2 * PIECE;
  }

  @Override
  @HotPath
  public void mayExpose(boolean may) {
    exposes = may && !ll128;
    exposed = 0;
  }

  @Override
  @HotPath
  public boolean mayExpect() {
    return !ll128 && recvs.length == 1 && recvs[0].mayWantNext() && recvs[0].hasPlacements();
  }

  @Override
  @HotPath
  public void expect(HostMemory target, long offset, int bytes) {
    if (bytes > 0) {
      recvs[0].wantNext(target, offset, bytes);
    }
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
    if (plain && bytes <= SHORT) {
      smallStep(source, sourceOffset, target, targetOffset, bytes, mode);
      return;
    }
    boolean partial = (mode & PARTIAL) != 0;
    if (!ll128 && source == null && target != null && !partial && recvs.length == 1) {
      recvs[0].want(target, targetOffset, bytes);
    }
    await(mode, bytes);
    if (exposes) {
      chooseSenders(mode != SEND ? target : prepares() ? null : source, bytes, mode);
    }
    if (mode == SEND && !prepares()) {
      // The own copy is made while the data are under way, unless it takes the source from memory.
      boolean late = exposed > 0 || bytes <= PIECE;
      fillAll(source, sourceOffset, late ? null : target, targetOffset, bytes);
      post(mode, bytes, source, sourceOffset);
      if (late && target != null) {
        copies.copy(source, sourceOffset, target, targetOffset, bytes, leaves);
      }
      return;
    }
    boolean passed = target == null || partial && exposed == 0;
    move(
        source,
        sourceOffset,
        passed ? sends[0].memory() : target,
        passed ? slot(sends[0]) : targetOffset,
        bytes,
        passed ? mode | PASSED : mode);
  }

  /**
   * A small step in LL128. What is combined for the peers alone is combined in this rank's memory:
   * a peer that looks for its step would take the slot's line away in between.
   */
  @HotPath
  private void smallStep(
      HostMemory source,
      long sourceOffset,
      HostMemory target,
      long targetOffset,
      int bytes,
      int mode) {
    boolean receive = (mode & RECEIVE) != 0;
    boolean kept = target != null && (mode & PARTIAL) == 0;
    HostMemory outcome = !receive ? source : kept ? target : scratch;
    long outcomeOffset = !receive ? sourceOffset : kept ? targetOffset : 0;
    if (receive && source == null) {
      recvs[0].recvSmall(waiter, call, outcome, outcomeOffset, bytes);
    } else if (receive) {
      recvReduceSmall(source, sourceOffset, outcome, outcomeOffset, bytes);
    }
    if ((mode & SEND) != 0) {
      for (SendEnd end : sends) {
        end.sendSmall(waiter, outcome, outcomeOffset, bytes, call);
      }
      if (!receive && kept) {
        Copies.copy(source, sourceOffset, target, targetOffset, bytes);
      }
      if (sends.length == 1) {
        sends[0].takeNext(bytes, call);
      }
    }
  }

  /** Own data and those of each peer, combined in this order. */
  @HotPath
  private void recvReduceSmall(
      HostMemory source, long sourceOffset, HostMemory target, long targetOffset, int bytes) {
    HostMemory sum = source;
    long sumOffset = sourceOffset;
    for (RecvEnd end : recvs) {
      long slot = end.awaitSmall(waiter, call, bytes);
      int count = bytes / elementBytes;
      reduction.reduce(sum, sumOffset, end.memory(), slot, target, targetOffset, count);
      end.releaseLazily();
      sum = target;
      sumOffset = targetOffset;
    }
  }

  /** The pieces of a step: to the outcome, and on to the slots of the peers. */
  private void move(
      HostMemory source,
      long sourceOffset,
      HostMemory outcome,
      long outcomeOffset,
      int bytes,
      int mode) {
    boolean receive = (mode & RECEIVE) != 0;
    boolean finishes =
        receive && source != null && (mode & (PASSED | PARTIAL)) == 0 && reduction.hasFinish();
    int firstEnd = (mode & PASSED) != 0 ? 1 : 0;
    boolean fills = (mode & SEND) != 0 && exposed + firstEnd < sends.length;
    boolean sendsOn = (mode & SEND) != 0;
    boolean mayStage =
        receive && !sendsOn && mayStage(source, sourceOffset, outcome, outcomeOffset);
    int most = receive && source == null && !fills ? bytes : PIECE;
    for (int at = 0; at < bytes; at += most) {
      int piece = Math.min(most, bytes - at);
      boolean staged = mayStage && copies.stagesSum(piece);
      if (receive) {
        HostMemory to = staged ? scratch : outcome;
        long toOffset = staged ? PIECE : outcomeOffset + at;
        take(source, sourceOffset + at, to, toOffset, at, piece, sendsOn);
        if (finishes) {
          reduction.finish(to, toOffset, piece / elementBytes);
        }
        if (staged) {
          copies.copySum(scratch, PIECE, outcome, outcomeOffset + at, piece);
        }
      } else {
        load(source, sourceOffset + at, outcome, outcomeOffset + at, piece);
      }
      if (fills) {
        fill(outcome, outcomeOffset + at, firstEnd, at, piece);
      }
    }
    post(mode, bytes, outcome, outcomeOffset);
  }

  /**
   * True if an outcome may go through the scratch memory. In place it does not: the caches have its
   * lines, since own data were read from them.
   */
  @HotPath
  private boolean mayStage(
      HostMemory source, long sourceOffset, HostMemory outcome, long outcomeOffset) {
    return stages
        && source != null
        && source.address() + sourceOffset != outcome.address() + outcomeOffset;
  }

  /**
   * Chooses the ends whose peers read this step from this rank's buffer. Where the data have a
   * place in the buffer only if all peers read them there, all or none.
   *
   * @param kept the buffer that has the step's data until the kernel ends; null for none
   */
  private void chooseSenders(HostMemory kept, int bytes, int mode) {
    exposed = 0;
    if ((mode & SEND) == 0 || kept == null) {
      return;
    }
    boolean partial = (mode & PARTIAL) != 0;
    boolean reduced = partial || mode == SEND && reduction != null;
    int chosen = 0;
    for (SendEnd end : sends) {
      chosen += end.choose(kept, bytes, reduced) ? 1 : 0;
    }
    exposed = partial && chosen < sends.length ? 0 : chosen;
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
      if (!ll128) {
        for (RecvEnd end : recvs) {
          end.locate(waiter);
        }
      }
    }
  }

  /** Own data to the target, if there is one, and to the slots of all that do not read them. */
  private void fillAll(
      HostMemory source, long sourceOffset, HostMemory target, long targetOffset, int bytes) {
    int copied = sends.length - exposed + (target == null ? 0 : 1);
    int most = copied > 1 ? PIECE : bytes;
    for (int at = 0; at < bytes; at += most) {
      int piece = Math.min(most, bytes - at);
      fill(source, sourceOffset + at, 0, at, piece);
      if (target != null) {
        copies.copy(source, sourceOffset + at, target, targetOffset + at, piece, leaves);
      }
    }
  }

  private void fill(HostMemory from, long fromOffset, int firstEnd, int at, int bytes) {
    for (int s = firstEnd; s < sends.length; s++) {
      SendEnd end = sends[s];
      if (exposed == 0 || !end.isChosen()) {
        if (ll128) {
          Ll128Slots.copyFlagLineLast(from, fromOffset, end.memory(), slot(end) + at, bytes);
        } else {
          end.fill(from, fromOffset, at, bytes);
        }
      }
    }
  }

  /**
   * Publishes a step, and gives the slots of what was received back.
   *
   * @param from what is exposed, where some ends expose the step
   */
  private void post(int mode, int bytes, HostMemory from, long fromOffset) {
    if ((mode & SEND) != 0) {
      for (SendEnd end : sends) {
        if (ll128) {
          end.postLl128(bytes, call);
        } else if (exposed > 0 && end.isChosen()) {
          end.expose(from, fromOffset, bytes, call);
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
    if (plain && bytes <= SHORT && mode == RECEIVE && recvs.length == 1) {
      reduceOneSmall(source, sourceOffset, target, targetOffset, bytes);
      return;
    }
    await(mode, bytes);
    if (exposes) {
      chooseSenders(target, bytes, mode);
    }
    boolean mayStage = (mode & SEND) == 0 && mayStage(source, sourceOffset, target, targetOffset);
    for (int at = 0; at < bytes; at += PIECE) {
      int piece = Math.min(PIECE, bytes - at);
      boolean staged = mayStage && copies.stagesSum(piece);
      HostMemory to = staged ? scratch : target;
      long toOffset = staged ? PIECE : targetOffset + at;
      combineInOrder(source, sourceOffset + at, to, toOffset, at, piece);
      if (reduction.hasFinish()) {
        reduction.finish(to, toOffset, piece / elementBytes);
      }
      if (staged) {
        copies.copySum(scratch, PIECE, target, targetOffset + at, piece);
      }
      if ((mode & SEND) != 0 && exposed < sends.length) {
        fill(target, targetOffset + at, 0, at, piece);
      }
    }
    post(mode, bytes, target, targetOffset);
  }

  /** Own data and those of the only peer, in the order of their ranks. */
  @HotPath
  private void reduceOneSmall(
      HostMemory source, long sourceOffset, HostMemory target, long targetOffset, int bytes) {
    RecvEnd end = recvs[0];
    long slot = end.awaitSmall(waiter, call, bytes);
    int count = bytes / elementBytes;
    HostMemory theirs = end.memory();
    if (lower == 0) {
      reduction.reduce(source, sourceOffset, theirs, slot, target, targetOffset, count);
    } else {
      reduction.reduce(theirs, slot, source, sourceOffset, target, targetOffset, count);
    }
    end.releaseLazily();
  }

  private void combineInOrder(
      HostMemory source, long sourceOffset, HostMemory to, long toOffset, int at, int bytes) {
    if (reduction.widens()) {
      operands.clear();
      for (int place = 0, r = 0; place <= recvs.length; place++) {
        if (place == lower) {
          addOwn(source, sourceOffset);
        } else {
          operands.add(part(recvs[r]), partOffset(recvs[r], at));
          r++;
        }
      }
      reduction.reduceAll(operands, to, toOffset, bytes / elementBytes);
      return;
    }
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
        next = part(recvs[r]);
        nextOffset = partOffset(recvs[r], at);
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
      Ll128Slots.copyFlagLineLast(from, fromOffset, to, toOffset, bytes);
    } else {
      Copies.copy(from, fromOffset, to, toOffset, bytes);
    }
  }

  /**
   * A piece of what the peers sent, combined with own data if there are any.
   *
   * @param sendsOn whether the outcome goes on to other peers
   */
  private void take(
      HostMemory source,
      long sourceOffset,
      HostMemory to,
      long toOffset,
      int at,
      int bytes,
      boolean sendsOn) {
    RecvEnd end = recvs[0];
    if (source == null && ll128) {
      copy(end.memory(), slot(end) + at, to, toOffset, bytes);
      return;
    }
    if (source == null) {
      end.copy(at, to, toOffset, bytes, leaves && !sendsOn, waiter);
      return;
    }
    if (combinesAll()) {
      operands.clear();
      addOwn(source, sourceOffset);
      for (RecvEnd next : recvs) {
        operands.add(part(next), partOffset(next, at));
      }
      reduction.reduceAll(operands, to, toOffset, bytes / elementBytes);
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
    HostMemory part = part(end);
    reduction.reduce(own, ownOffset, part, partOffset(end, at), to, toOffset, count);
    for (int r = 1; r < recvs.length; r++) {
      end = recvs[r];
      part = part(end);
      reduction.reduce(to, toOffset, part, partOffset(end, at), to, toOffset, count);
    }
  }

  /** The memory that holds a piece of what a peer sent, at {@link #partOffset}. */
  private HostMemory part(RecvEnd end) {
    return ll128 ? end.memory() : end.part();
  }

  private long partOffset(RecvEnd end, int at) {
    return ll128 ? slot(end) + at : end.partOffset(at);
  }
}
