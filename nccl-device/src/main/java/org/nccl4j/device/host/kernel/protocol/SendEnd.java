package org.nccl4j.device.host.kernel.protocol;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.SingleCopy;
import org.nccl4j.device.kernel.SharedConnections;
import org.nccl4j.device.support.CopyWays;

/** The sending end of a connection. */
public final class SendEnd extends ConnectionEnd {
  private static final VarHandle SENT;

  static {
    try {
      SENT = MethodHandles.lookup().findVarHandle(SendEnd.class, "sent", long.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  /**
   * Bytes of data sent so far, those that the receiver reads from a buffer included. Written by the
   * owner; read by the progress monitor, a little late.
   */
  private long sent;

  /** The receiver's head when last looked at. */
  private long head;

  /** Null if this end never exposes. */
  private Exposure exposing;

  /** The communicator's exposures; null if this end never exposes. */
  private Exposures exposures;

  /** The last step that the current kernel has exposed, or -1. */
  private long lastExposed = -1;

  private boolean chosen;
  private final MeasuredCopies fills = MeasuredCopies.intoSlots(CopyWays.ofProcess());

  public SendEnd(int peer, Connection connection, ConnectionLayout layout) {
    super(peer, connection, layout);
  }

  /** An end without a connection yet. */
  SendEnd(int peer, ConnectionLayout layout) {
    super(peer, layout);
  }

  private SendEnd(int peer, SendEnd same) {
    super(peer, same);
  }

  /** The same connection for a communicator in which the peer has another number. */
  SendEnd numbered(int other) {
    return new SendEnd(other, this);
  }

  /** From now on exposes this rank's buffers to a receiver that can read them. */
  void expose(SingleCopy sizes, Exposures its) {
    exposing = new Exposure(data, credit, layout, sizes);
    exposures = its;
  }

  /** From now on exposes as another end of the same connection does. */
  void expose(SendEnd same, Exposures its) {
    exposing = same.exposing;
    exposures = its;
  }

  @Override
  void forget() {
    head = 0;
  }

  /** Tells the receiver for which communicator it sends from now on, before all that it sends. */
  void tell(long told) {
    AtomicWords.storeRelease(data, SharedConnections.TOLD, told);
    VarHandle.storeStoreFence();
  }

  /** Waits until the slot of the current step is empty. */
  @HotPath
  public void awaitCredit(SpinWait waiter) {
    awaitHead(waiter, step - ConnectionLayout.STEPS);
  }

  /** In LL128: finds the slot of the current step, and waits until it is empty. */
  @HotPath
  void awaitLl128Credit(SpinWait waiter, int bytes) {
    findLl128(bytes);
    awaitHead(waiter, step - Ll128Slots.count(bytes));
  }

  private void awaitHead(SpinWait waiter, long taken) {
    if (head <= taken) {
      head = waiter.awaitGreater(credit, ConnectionLayout.HEAD, taken, peer, "a free buffer");
    }
  }

  /** True if the slot of the current step is empty. */
  @HotPath
  boolean hasCredit() {
    return isHeadBeyond(step - ConnectionLayout.STEPS);
  }

  /** In LL128: finds the slot of the current step; whether it is empty. */
  @HotPath
  boolean hasLl128Credit(int bytes) {
    findLl128(bytes);
    return isHeadBeyond(step - Ll128Slots.count(bytes));
  }

  private boolean isHeadBeyond(long taken) {
    if (head <= taken) {
      head = AtomicWords.loadAcquire(credit, ConnectionLayout.HEAD);
    }
    return head > taken;
  }

  /**
   * Chooses the receiver to read the current step from a buffer, if it can and is to.
   *
   * @param reduced whether the receiver reduces the step's data, instead of copying them
   */
  @HotPath
  boolean choose(HostMemory memory, int bytes, boolean reduced) {
    chosen = exposing != null && exposing.takes(memory, bytes, reduced);
    return chosen;
  }

  /** True if the receiver was chosen for the current step. */
  @HotPath
  boolean isChosen() {
    return chosen;
  }

  /** True if a step of so many bytes of a memory can be copied from there, and is to be. */
  @HotPath
  public boolean exposes(HostMemory memory, int bytes) {
    return exposing != null && exposing.takes(memory, bytes, /* reduced= */ false);
  }

  /**
   * In Simple: publishes a part of a buffer as the current step's data, and goes on to the next
   * step. The part must stay as it is until the receiver has read it, which the end of the kernel
   * waits for.
   */
  @HotPath
  public void expose(HostMemory memory, long offset, int bytes, Call call) {
    exposing.expose(step, Exposure.SOURCE, memory, offset);
    exposed();
    count(bytes);
    publish(~bytes, call);
  }

  private void exposed() {
    if (lastExposed < 0) {
      exposures.add(this);
    }
    lastExposed = step;
  }

  /**
   * In Simple: a step that exposes a whole buffer for the receiver to read, and perhaps another to
   * write to, until the end of the kernel; or that tells it that it gets none, if it does not reach
   * them.
   *
   * @param source null for none at all
   * @param target null for none
   * @param bytes of the source that the receiver is going to read, for the count
   * @return whether they are exposed
   */
  @HotPath
  public boolean offer(
      SpinWait waiter, HostMemory source, HostMemory target, long bytes, Call call) {
    awaitCredit(waiter);
    boolean reached = source != null && reaches(source) && (target == null || reaches(target));
    if (reached) {
      exposing.expose(step, Exposure.SOURCE, source, 0);
      if (target != null) {
        exposing.expose(step, Exposure.TARGET, target, 0);
      }
      exposed();
      count(bytes);
    }
    publish(reached ? ~Long.BYTES : Long.BYTES, call);
    return reached;
  }

  /** True if the receiver's processor can access a buffer. */
  private boolean reaches(HostMemory memory) {
    return exposing != null
        && exposing.takes(memory, SingleCopy.NEVER - 1, /* reduced= */ true)
        && exposing.isReached();
  }

  /** Waits until the receiver has read what the current kernel has exposed. */
  @HotPath
  void awaitReturn(SpinWait waiter) {
    if (head <= lastExposed) {
      head =
          waiter.awaitGreater(
              credit, ConnectionLayout.HEAD, lastExposed, peer, "the end of a read");
    }
    forgetExposures();
  }

  /** Nothing is exposed any more. */
  @HotPath
  void forgetExposures() {
    lastExposed = -1;
    exposing.forget();
  }

  Exposure exposing() {
    return exposing;
  }

  /** Ends the offer to expose, where there is one; no kernel uses this end any more. */
  public void close() {
    if (exposing != null) {
      exposing.close();
    }
  }

  /** In Simple: copies data to a place in the current step's slot. */
  @HotPath
  public void fill(HostMemory source, long sourceOffset, int at, int bytes) {
    fills.copy(source, sourceOffset, data, simpleSlot() + at, bytes);
  }

  /** The copies into slots. */
  MeasuredCopies fills() {
    return fills;
  }

  /** In Simple: publishes the slot of the current step, and goes on to the next. */
  @HotPath
  public void post(int size, Call call) {
    count(size);
    publish(size, call);
  }

  private void publish(int size, Call call) {
    long sizeAt = ConnectionLayout.size(step);
    data.window(sizeAt).putInt(data.index(sizeAt), size);
    long signature = ConnectionLayout.signature(step);
    data.window(signature).putShort(data.index(signature), call.signature);
    step++;
    AtomicWords.storeRelease(data, ConnectionLayout.TAIL, step);
  }

  /**
   * In LL128: publishes the slot that was found, that of the current step, and goes on to the next.
   */
  @HotPath
  void postLl128(int bytes, Call call) {
    count(bytes);
    AtomicWords.storeRelease(data, ll128Flag, call.flag(step));
    step++;
  }

  /** In LL128: sends a step, once there is a slot, and goes on to the next. */
  @HotPath
  public void sendSmall(
      SpinWait waiter, HostMemory source, long sourceOffset, int bytes, Call call) {
    awaitHead(waiter, step - Ll128Slots.count(bytes));
    fillSmall(source, sourceOffset, bytes, call);
  }

  /** In LL128: sends a step, if there is a slot, and goes on to the next; whether it did. */
  @HotPath
  boolean sendSmallNow(HostMemory source, long sourceOffset, int bytes, Call call) {
    if (!isHeadBeyond(step - Ll128Slots.count(bytes))) {
      return false;
    }
    fillSmall(source, sourceOffset, bytes, call);
    return true;
  }

  private void fillSmall(HostMemory source, long sourceOffset, int bytes, Call call) {
    long now = step;
    int slot = Ll128Slots.slot(layout, now, bytes);
    Ll128Slots.copyFlagLineLast(source, sourceOffset, data, slot + LL128_DATA, bytes);
    count(bytes);
    step = now + 1;
    AtomicWords.storeRelease(front, frontIndex + slot, call.flag(now));
  }

  /**
   * In LL128: takes the lines of the next step's slot from the receiver's cache, in time that this
   * rank would spend waiting for the peer's step, so that the next step's stores need not wait for
   * them. The flag's line stays: the receiver polls it. For a rank that sends to this peer alone:
   * the stores of a step to another peer would have to wait for these lines.
   */
  @HotPath
  void takeNext(int bytes, Call call) {
    if (bytes > Ll128Slots.LINE_DATA && !call.oneWay && head > step - Ll128Slots.count(bytes)) {
      int next = frontIndex + Ll128Slots.slot(layout, step, bytes);
      int end = next + LL128_DATA + bytes;
      for (int line = next + Ll128Slots.LINE_BYTES; line < end; line += Ll128Slots.LINE_BYTES) {
        front.putLong(line, 0);
      }
    }
  }

  /** In LL, where every word carries its flag: goes on to the next step. */
  @HotPath
  void next(int bytes) {
    count(bytes);
    step++;
  }

  private void count(long bytes) {
    SENT.setOpaque(this, sent + bytes);
  }

  /** Bytes of data sent so far. Any thread. */
  long sent() {
    return (long) SENT.getOpaque(this);
  }
}
