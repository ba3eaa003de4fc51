package org.nccl4j.device.kernel.gin;

import java.lang.invoke.VarHandle;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.bind.NativeWords;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.RmaMessage;
import org.nccl4j.device.kernel.RmaSpace;

/**
 * The two connections with a rank outside the team, which carry {@link GinMessage}. Owned by the
 * thread that gives the proxy its turn.
 */
final class GinPeer {
  /**
   * Most steps that one message exposes: acknowledgements, answers and other rings' messages have
   * their place between two such messages of a large put.
   */
  private static final int MOST_EXPOSED = 32;

  private final int rank;
  private final ConnectionLayout layout;
  private final int slotBytes;

  /** The rank's gets from this rank's windows. */
  private final GinGets gets = new GinGets();

  // Messages to the rank.
  private final NativeWords toData;
  private final NativeWords toCredit;
  private final long toSlots;
  private final Part[] parts = new Part[ConnectionLayout.STEPS];
  private long begun;
  private long acknowledged;

  /** The ring that has waited for credit the longest, and sends next; null if any may. */
  private GinRing first;

  /** Null where all data go through slots. */
  private final GinDevice.Exposing exposing;

  /** Gets from the rank's windows. */
  private long asked;

  private long answered;

  // Messages from the rank.
  private final NativeWords fromData;
  private final NativeWords fromCredit;
  private final long fromSlots;
  private final long[] copies = new long[ConnectionLayout.STEPS];
  private final int[] signals = new int[ConnectionLayout.STEPS];
  private final GinRing[] rings = new GinRing[ConnectionLayout.STEPS];
  private long taken;
  private long done;
  private long acknowledgementDue;
  private long acknowledgementSent;

  /** Null where all data come to slots. */
  private final GinDevice.Placing placing;

  /** The last copy of the rank's data into this rank's windows. */
  private long lastCopy;

  // The put whose steps of data alone are coming: bytes that are left, and of which it was not told
  // where they go.
  private long restWindow;
  private long restOffset;
  private long rest;
  private long untold;
  private int restSignal;
  private GinRing restRing;

  /** A message whose data are being copied into its slot. */
  static final class Part {
    final GinPeer peer;
    long step;

    /** The step behind the message and the data behind it. */
    long end;

    long copies;
    int size;

    /** The ring whose descriptor ends with this message; else null. */
    GinRing ends;

    Part(GinPeer peer) {
      this.peer = peer;
    }
  }

  /**
   * A rank.
   *
   * @param of this rank's communicator
   */
  GinPeer(int rank, Connection send, Connection recv, GinProxy.Of of, GinDevice device) {
    this.rank = rank;
    this.layout = of.layout();
    this.slotBytes = of.slotBytes();
    exposing = device.exposing(send).orElse(null);
    placing = device.placing(recv).orElse(null);
    toData = new NativeWords(device.hostAddress(send.data().address()));
    toCredit = new NativeWords(device.hostAddress(send.credit().address()));
    toSlots = send.data().address();
    fromData = new NativeWords(device.hostAddress(recv.data().address()));
    fromCredit = new NativeWords(device.hostAddress(recv.credit().address()));
    fromSlots = recv.data().address();
    for (int slot = 0; slot < parts.length; slot++) {
      parts[slot] = new Part(this);
    }
  }

  int rank() {
    return rank;
  }

  GinGets gets() {
    return gets;
  }

  /** The communicator has failed: no window is read any more. Any thread. */
  void release() {
    if (exposing != null) {
      exposing.end();
    }
  }

  // ---- To the rank ----

  /** True if a message can be begun. */
  boolean hasCredit() {
    return begun - sent() < ConnectionLayout.STEPS;
  }

  /**
   * True if a ring can begin a message. A ring that waits for credit has its turn before those that
   * have just sent.
   *
   * @param waits true if the ring has sent nothing in this turn
   */
  boolean hasCreditFor(GinRing ring, boolean waits) {
    boolean mine = first == null || first == ring || !first.isOpen();
    if (mine && hasCredit()) {
      first = null;
      return true;
    }
    if (mine && waits) {
      first = ring;
    }
    return false;
  }

  /** The number of the next message. */
  long next() {
    return begun;
  }

  /** Where the data of the next message go to, as kernels see it. */
  long nextData() {
    return toSlots + layout.simple(begun) + RmaMessage.HEADER;
  }

  /** Begins a message, whose data are being copied. */
  Part begin(long window, long offset, int bytes, int signal, long communicator) {
    long slot = layout.simple(begun);
    toData.putLong(slot, window);
    toData.putLong(slot + RmaMessage.OFFSET, offset);
    toData.putInt(slot + RmaMessage.BYTES, bytes);
    toData.putInt(slot + RmaMessage.SIGNALS, signal);
    toData.putLong(slot + GinMessage.COMMUNICATOR, communicator);
    Part part = parts[slot(begun)];
    part.step = begun;
    part.size = RmaMessage.HEADER + Math.max(0, bytes);
    begun++;
    part.end = begun;
    return part;
  }

  /** True if some bytes of a window are sent from there. */
  boolean exposes(DeviceMemory source, long at, long bytes) {
    return exposing != null && exposing.takes(source, at, bytes);
  }

  /** Returns the most bytes that one message exposes, which fill its steps. */
  long mostExposed() {
    return (long) MOST_EXPOSED * slotBytes;
  }

  /** Begins a message whose data are sent from where they are, in the steps behind it. */
  Part expose(
      long window, long offset, DeviceMemory source, long at, long bytes, int signal, long number) {
    toData.putLong(layout.simple(begun) + GinMessage.BYTES_BEHIND, bytes);
    Part part = begin(window, offset, GinMessage.BEHIND, signal, number);
    part.size = RmaMessage.HEADER + GinMessage.MOST_BYTES;
    begun = exposing.add(begun, source, at, bytes);
    part.end = begun; // the steps need no slots, and so no credit
    return part;
  }

  /** True if one more get from the rank's windows can be begun. */
  boolean mayAsk() {
    return asked - answered < GinGets.MOST;
  }

  /** Begins a get from the rank's windows, whose number is the count of those before. */
  Part ask(long window, long offset, long bytes, long toWindow, long toOffset) {
    long slot = layout.simple(begun);
    toData.putLong(slot + GinMessage.ANSWER_OFFSET, toOffset);
    toData.putLong(slot + GinMessage.GET_BYTES, bytes);
    Part part = begin(window, offset, GinMessage.GET, 0, toWindow);
    part.size = RmaMessage.HEADER + GinMessage.MOST_BYTES;
    asked++;
    return part;
  }

  long asked() {
    return asked;
  }

  /** Gets whose data are in this rank's windows. */
  long answered() {
    return answered;
  }

  /** Publishes a message, whose data are in its slot or behind it, to the transport. */
  void post(Part part) {
    toData.putInt(ConnectionLayout.size(part.step), part.size);
    VarHandle.releaseFence();
    toData.putLong(ConnectionLayout.TAIL, part.end);
  }

  /** Steps that have been sent. */
  long sent() {
    long head = toCredit.getLong(ConnectionLayout.HEAD);
    VarHandle.acquireFence();
    return head;
  }

  /** Messages and steps of this rank that have arrived there. */
  long acknowledged() {
    return acknowledged;
  }

  // ---- From the rank ----

  /** True if a step has come that was not looked at. */
  boolean hasStep() {
    long tail = fromData.getLong(ConnectionLayout.TAIL);
    VarHandle.acquireFence();
    return tail > taken;
  }

  /** True if the step is data of an earlier message. */
  boolean isBehind() {
    return rest > 0;
  }

  long window() {
    return fromData.getLong(layout.simple(taken));
  }

  long offset() {
    return fromData.getLong(layout.simple(taken) + RmaMessage.OFFSET);
  }

  int bytes() {
    return fromData.getInt(layout.simple(taken) + RmaMessage.BYTES);
  }

  int signal() {
    return fromData.getInt(layout.simple(taken) + RmaMessage.SIGNALS);
  }

  long communicator() {
    return fromData.getLong(layout.simple(taken) + GinMessage.COMMUNICATOR);
  }

  long bytesBehind() {
    return fromData.getLong(layout.simple(taken) + GinMessage.BYTES_BEHIND);
  }

  /** The get that the message is. */
  GinGets.Get get() {
    long slot = layout.simple(taken);
    return new GinGets.Get(
        lastCopy,
        window(),
        offset(),
        communicator(),
        fromData.getLong(slot + GinMessage.ANSWER_OFFSET),
        fromData.getLong(slot + GinMessage.GET_BYTES));
  }

  /** True if nothing of the rank's is being copied any more. */
  boolean hasCopied(long copied) {
    return lastCopy <= copied;
  }

  /** The message is an acknowledgement. */
  void acknowledge() {
    acknowledged = offset();
    next(null, 0, /* due= */ false);
  }

  /** The message is a get from this rank's windows. */
  void takeGet() {
    gets.add(get());
    next(null, 0, /* due= */ false);
  }

  /**
   * The message is a put whose data are in it.
   *
   * @param target null without data
   * @param ring whose signal it raises; null for none
   */
  void takePut(GinDevice.Copies to, DeviceMemory target, GinRing ring) {
    if (target != null) {
      copy(to, target, offset(), RmaMessage.HEADER, bytes());
    }
    next(ring, signal(), /* due= */ signal() >= 0);
  }

  /** The message is a put whose data come behind it. */
  void takeBehind(DeviceMemory target, GinRing ring) {
    restWindow = window();
    restOffset = offset();
    rest = bytesBehind();
    untold = rest;
    restRing = ring;
    restSignal = signal();
    next(null, 0, /* due= */ false);
    tell(target);
  }

  /** The window of the data that come, as long as it is registered. */
  DeviceMemory target(RmaSpace.Targets targets) {
    return target(targets, restSignal, restWindow, restOffset, 0, rest);
  }

  /** The window of a message's data and of those behind it. */
  DeviceMemory target(RmaSpace.Targets targets, int bytes, long behind) {
    return target(targets, signal(), window(), offset(), bytes, behind);
  }

  private DeviceMemory target(
      RmaSpace.Targets targets, int signal, long window, long offset, int bytes, long behind) {
    return signal < 0
        ? targets.ofAnswer(rank, window, offset, bytes, behind)
        : targets.of(rank, window, offset, bytes, behind);
  }

  /** The step is data alone, which may be in the window already. */
  void takeData(GinDevice.Copies to, DeviceMemory target) {
    int bytes = (int) Math.min(slotBytes, rest);
    if (placing == null || !placing.take(taken)) {
      copy(to, target, restOffset, 0, bytes);
    }
    restOffset += bytes;
    rest -= bytes;
    untold = Math.min(untold, rest); // it may have come unasked
    if (rest > 0) {
      next(null, 0, /* due= */ false);
      tell(target);
    } else {
      next(restRing, restSignal, /* due= */ restSignal >= 0);
    }
  }

  private void copy(GinDevice.Copies to, DeviceMemory target, long at, int begin, int bytes) {
    to.begin(target.address() + at, fromSlots + layout.simple(taken) + begin, bytes);
    lastCopy = to.begun();
  }

  /** Tells where the data of the next steps go. */
  private void tell(DeviceMemory target) {
    if (placing == null) {
      return;
    }
    long step = taken + (rest - untold + slotBytes - 1) / slotBytes;
    while (untold > 0 && placing.mayTell(step, done)) {
      int bytes = (int) Math.min(slotBytes, untold);
      placing.tell(step++, target, restOffset + rest - untold, bytes);
      untold -= bytes;
    }
  }

  /**
   * Goes on to the next step; what this one says is done once the copies so far are.
   *
   * @param ring whose signal it raises; null for none
   * @param due true if the rank wants to know when it is done
   */
  private void next(GinRing ring, int signal, boolean due) {
    int slot = slot(taken);
    copies[slot] = lastCopy;
    rings[slot] = ring;
    signals[slot] = signal;
    taken++;
    if (due) {
      acknowledgementDue = taken;
    }
  }

  /** Raises the signals of messages that are where they belong, and gives their slots back. */
  int finish(long copied) {
    long before = done;
    while (done < taken && copies[slot(done)] <= copied) {
      int signal = signals[slot(done)];
      if (rings[slot(done)] != null) {
        rings[slot(done)].raise(signal - 1);
      } else if (signal == GinMessage.ANSWERED) {
        answered++;
      }
      done++;
    }
    if (done > before) {
      VarHandle.releaseFence();
      fromCredit.putLong(ConnectionLayout.HEAD, done);
    }
    return (int) (done - before);
  }

  /** True if the rank is to be told of messages that have arrived. */
  boolean owesAcknowledgement() {
    return Math.min(done, acknowledgementDue) > acknowledgementSent && hasCredit();
  }

  Part beginAcknowledgement() {
    acknowledgementSent = done;
    return begin(0, done, GinMessage.ACKNOWLEDGEMENT, 0, 0);
  }

  private static int slot(long step) {
    return (int) step & (ConnectionLayout.STEPS - 1);
  }
}
