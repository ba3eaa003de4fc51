package org.nccl4j.device.host.kernel.protocol;

import java.lang.invoke.VarHandle;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.SingleCopy;
import org.nccl4j.device.kernel.SharedConnections;
import org.nccl4j.device.support.CopyWays;

/** The receiving end of a connection. */
public final class RecvEnd extends ConnectionEnd implements Sender {
  /**
   * In LL and LL128 the head is stored every so many steps. With 4 a sender that is ahead would
   * have between 4 and 8 of the slots for larger steps, and where flights are slow it would stand
   * still for want of them.
   */
  private static final int HEAD_STEPS = 2;

  /** Bytes of a step below which it is never received where it is wanted: a copy costs less. */
  private static final int LEAST_PLACED = 16 << 10;

  /** Looks at a later step, while a sender goes ahead. */
  private static final int AHEAD_LOOKS = 16;

  /** The sender's tail when last looked at. */
  private long tail;

  /** The step that is awaited, while one is. */
  private long awaited;

  private final MeasuredCopies kept = MeasuredCopies.kept(CopyWays.ofProcess());
  private final MeasuredCopies leaving = MeasuredCopies.leaving(CopyWays.ofProcess());

  /** The end of the same connection that this one was made from; null if there is none. */
  private RecvEnd same;

  /** Null where no proxy is known to receive data where they are wanted. */
  private Placements placements;

  /** The first step of which the kernel has not said where it wants the data. */
  private long untold;

  /** True if the current step's data, which were located, are where they were wanted. */
  private boolean placed;

  /** Null if this end reads no exposed memory. */
  private ExposureReader reader;

  /** The memory of the current step's data, if they are in this process. */
  private HostMemory from;

  /** Offset of the current step's data in their memory, or their address in another process. */
  private long fromOffset;

  public RecvEnd(int peer, Connection connection, ConnectionLayout layout) {
    super(peer, connection, layout);
  }

  /** An end without a connection yet. */
  RecvEnd(int peer, ConnectionLayout layout) {
    super(peer, layout);
  }

  private RecvEnd(int peer, RecvEnd same) {
    super(peer, same);
    this.same = same;
  }

  /** The same connection for a communicator in which the peer has another number. */
  RecvEnd numbered(int other) {
    return new RecvEnd(other, this);
  }

  /**
   * From now on reads data from the sender's buffers where it can.
   *
   * @param ranks this rank and the sender, for messages
   */
  void readExposures(SingleCopy sizes, String ranks) {
    reader = new ExposureReader(data, credit, layout, sizes, ranks);
    reader.answer();
  }

  /** From now on reads as another end of the same connection does. */
  void readExposures(RecvEnd other) {
    same = other;
    reader = other.reader;
  }

  @Override
  void forget() {
    tail = 0;
  }

  /** Returns the sender's last report of its communicator, as of when the received data came. */
  long told() {
    VarHandle.loadLoadFence();
    return AtomicWords.loadAcquire(data, SharedConnections.TOLD);
  }

  /**
   * In Simple: wants the data of the current step, which is awaited, in a buffer, if a proxy can
   * receive them there. The kernel copies them there otherwise.
   */
  @HotPath
  void want(HostMemory target, long offset, int bytes) {
    if (untold <= step) {
      wantNext(target, offset, bytes);
    }
  }

  /**
   * In Simple: the same for the first step of which the kernel has not said it yet. It must receive
   * that step and all before it, with {@link #want} or by copying from {@link #locate}.
   *
   * @param target null if the step's data are not only copied
   */
  @HotPath
  void wantNext(HostMemory target, long offset, int bytes) {
    long wanted = Math.max(untold, step);
    untold = wanted + 1;
    if (target != null && bytes >= LEAST_PLACED && tail <= wanted && hasPlacements()) {
      placements.want(wanted, target, offset, bytes);
    }
  }

  /**
   * The same where the sender may wait until it knows where the data go: a proxy has to tell it
   * also that a step goes to its slot.
   */
  @HotPath
  public void wantOrDecline(HostMemory target, long offset, int bytes) {
    long wanted = Math.max(untold, step);
    untold = wanted + 1;
    if (tail <= wanted && hasPlacements()) {
      placements.wantOrDecline(wanted, target, offset, bytes);
    }
  }

  /** True if a proxy receives data where they are wanted. */
  @HotPath
  boolean hasPlacements() {
    return placements != null || findPlacements();
  }

  /** True if the kernel may say of one more step where it wants the data. */
  @HotPath
  public boolean mayWantNext() {
    return untold <= step + Placing.AHEAD;
  }

  private boolean findPlacements() {
    if (same == null) {
      placements = Placements.of(data);
    } else if (same.placements != null || same.findPlacements()) {
      placements = same.placements;
    }
    return placements != null;
  }

  /** In Simple: waits until the slot of the current step is full. */
  @HotPath
  public void awaitData(SpinWait waiter, Call call) {
    awaitData(waiter, call, 0);
  }

  /** In Simple: waits until the slot of a step after the current one is full. */
  @HotPath
  public void awaitData(SpinWait waiter, Call call, int ahead) {
    if (tail <= step + ahead) {
      awaited = step + ahead;
      tail = waiter.awaitTail(data, ConnectionLayout.TAIL, step + ahead, call, this);
    }
    compare(waiter, call, step + ahead);
  }

  /** In Simple: throws if the data of a step that is there are another call's. */
  @HotPath
  private void compare(SpinWait waiter, Call call, long full) {
    long at = ConnectionLayout.signature(full);
    short signature = data.window(at).getShort(data.index(at));
    if (signature != call.signature && signature != 0) {
      throw waiter.differs(call, peer);
    }
  }

  /** In Simple: the slot of a step after the current one. */
  @HotPath
  public long simpleSlot(int ahead) {
    return layout.simple(step + ahead);
  }

  /** In LL128: finds the slot of the current step, and waits until it is full. */
  @HotPath
  void awaitLl128(SpinWait waiter, Call call, int bytes) {
    findLl128(bytes);
    waiter.awaitFlag(data, ll128Flag, call.flag(step), call, awaited());
  }

  /**
   * Gives a sender that does not wait for this rank a little time to go ahead, once this rank has
   * had to wait for it and more of the same will come. Otherwise both ranks would work on the same
   * cache lines, and each step take a flight in each direction.
   */
  @HotPath
  private void letSenderGoAhead(SpinWait waiter, Call call, int bytes) {
    int ahead = Ll128Slots.count(bytes) / 4;
    if (!call.oneWay || waiter.following() < ahead) {
      return;
    }
    long flag = call.flag(step + ahead);
    int slot = frontIndex + Ll128Slots.slot(layout, step + ahead, bytes);
    for (int looks = 0; looks < AHEAD_LOOKS; looks++) {
      if (AtomicWords.loadAcquire(front, slot) == flag) {
        return;
      }
      Thread.onSpinWait();
    }
  }

  /** In LL128: receives a step, once it is there, and goes on to the next. */
  @HotPath
  public void recvSmall(
      SpinWait waiter, Call call, HostMemory target, long targetOffset, int bytes) {
    int from = awaitSmall(waiter, call, bytes);
    Copies.copy(data, from, target, targetOffset, bytes);
    releaseLazily();
  }

  /** In LL128: waits for a step, and returns the offset of its data. */
  @HotPath
  public int awaitSmall(SpinWait waiter, Call call, int bytes) {
    long now = step;
    int slot = Ll128Slots.slot(layout, now, bytes);
    long flag = call.flag(now);
    if (AtomicWords.loadAcquire(front, frontIndex + slot) != flag) {
      waiter.awaitFlag(data, slot, flag, call, awaited());
      letSenderGoAhead(waiter, call, bytes);
    }
    return slot + LL128_DATA;
  }

  /** In LL128: finds the slot of the current step; whether it is full. */
  @HotPath
  boolean hasLl128(Call call, int bytes) {
    findLl128(bytes);
    return AtomicWords.loadAcquire(data, ll128Flag) == call.flag(step);
  }

  @Override
  public int peer() {
    return peer;
  }

  /** {@inheritDoc} Looks for the step by each protocol, and in LL128 in each size. */
  @Override
  public boolean sentAnother(Call call) {
    long flag = call.flag(awaited);
    return LlLines.isOther(data, layout.ll(awaited), LlLines.flag(awaited, call))
        || Call.isOther(ll128Flag(Ll128Slots.WORD_DATA), flag)
        || Call.isOther(ll128Flag(Ll128Slots.LINE_DATA), flag)
        || Call.isOther(ll128Flag(Ll128Slots.TRIPLE_DATA), flag)
        || Call.isOther(ll128Flag(Ll128Slots.SHORT_DATA), flag)
        || layout.ll128SlotBytes() > 0 && Call.isOther(ll128Flag(Integer.MAX_VALUE), flag)
        || AtomicWords.loadAcquire(data, ConnectionLayout.TAIL) > awaited;
  }

  private long ll128Flag(int bytes) {
    return AtomicWords.loadAcquire(data, Ll128Slots.slot(layout, awaited, bytes));
  }

  /** The current step is awaited. */
  @HotPath
  RecvEnd awaited() {
    awaited = step;
    return this;
  }

  /** In Simple: whether the slot of the current step is full. */
  @HotPath
  public boolean hasData() {
    if (tail <= step) {
      tail = AtomicWords.loadAcquire(data, ConnectionLayout.TAIL);
    }
    return tail > step;
  }

  /** Same as {@link #hasData()}, but throws if the data belong to another call. */
  @HotPath
  public boolean hasData(SpinWait waiter, Call call) {
    if (!hasData()) {
      return false;
    }
    compare(waiter, call, step);
    return true;
  }

  /**
   * In Simple: finds the data of the current step, which are there: in the slot, or exposed. From
   * here to the release nothing waits: a sender that fails waits for the end of the reading.
   */
  @HotPath
  public void locate(SpinWait waiter) {
    if (reader != null) {
      reader.answer();
      if (reader.isExposed(step)) {
        if (!reader.begin(step)) {
          waiter.awaitFailure(peer);
        }
        from = reader.memory(step, Exposure.SOURCE, waiter, peer);
        fromOffset = reader.place(step, Exposure.SOURCE);
        return;
      }
    }
    from = data;
    fromOffset = layout.simple(step);
    placed = placements != null && placements.isPlaced(step);
  }

  /**
   * In Simple: copies a part of the current step's data, which were located.
   *
   * @param leaves whether the target leaves the caches before anybody reads it
   */
  @HotPath
  public void copy(
      int at, HostMemory target, long targetOffset, int bytes, boolean leaves, SpinWait waiter) {
    if (placed) {
      return;
    }
    if (from == null) {
      reader.fetch(fromOffset + at, target.address() + targetOffset, bytes, waiter, peer);
    } else {
      (leaves ? leaving : kept).copy(from, fromOffset + at, target, targetOffset, bytes);
    }
  }

  /** In Simple: true if the current step's data, which were located, are where they were wanted. */
  @HotPath
  public boolean isPlaced() {
    return placed;
  }

  /**
   * In Simple: the memory of the current step's data, which were located. Data of another process
   * can only be copied.
   */
  @HotPath
  public HostMemory part() {
    return from;
  }

  /** In Simple: the place of a part of the current step's data in their memory. */
  @HotPath
  public long partOffset(int at) {
    return fromOffset + at;
  }

  /** True if the current step's data, which were located, lie in the sender's buffer. */
  @HotPath
  public boolean isExposed() {
    return from != data;
  }

  /** The memory that the sender exposes with the current step for this rank to write to. */
  @HotPath
  public HostMemory target(SpinWait waiter) {
    return reader.memory(step, Exposure.TARGET, waiter, peer);
  }

  /** The offset of what is exposed to write to in its memory. */
  @HotPath
  public long targetOffset() {
    return reader.place(step, Exposure.TARGET);
  }

  /** While this rank works for long on what is exposed: fails if the sender has failed. */
  @HotPath
  public void check(SpinWait waiter) {
    if (reader.isRevoked()) {
      waiter.awaitFailure(peer);
    }
  }

  /** After a failure: reads nothing any more. */
  void abandon() {
    if (reader != null) {
      reader.abandon();
    }
  }

  /** Keeps nothing of the sender's mapped, and tells no proxy of buffers any more. */
  public void close() {
    if (reader != null) {
      reader.close();
    }
    if (placements != null && same == null) {
      placements.close();
    }
  }

  /** Gives the slot of the current step back, and goes on to the next. */
  @HotPath
  public void release() {
    clearLast();
    if (reader != null) {
      reader.end();
    }
    if (placements != null) {
      placements.forget(step);
    }
    step++;
    AtomicWords.storeRelease(credit, ConnectionLayout.HEAD, step);
  }

  /** Frees LL's slot of old flags before steps in flags repeat, whatever the protocol is now. */
  @HotPath
  private void clearLast() {
    if (LlLines.isLastOfSlot(step, ConnectionLayout.STEPS)) {
      LlLines.clear(data, llSlot(), layout.llSlotBytes());
    }
  }

  /** In LL and LL128: gives slots back, some at a time, and goes on to the next. */
  @HotPath
  public void releaseLazily() {
    clearLast();
    step++;
    if ((step & (HEAD_STEPS - 1)) == 0) {
      AtomicWords.storeRelease(credit, ConnectionLayout.HEAD, step);
    }
  }
}
