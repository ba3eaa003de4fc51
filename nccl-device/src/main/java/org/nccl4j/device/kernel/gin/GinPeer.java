package org.nccl4j.device.kernel.gin;

import java.lang.invoke.VarHandle;
import org.nccl4j.device.bind.NativeWords;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.RmaMessage;

/**
 * The two connections with a rank outside the team. A message is a {@link RmaMessage} whose last
 * field is the number of the device communicator, and whose signals are one more than the signal's
 * number. An acknowledgement has {@link #ACKNOWLEDGEMENT} bytes and, as offset, the number of
 * messages that have arrived. Owned by the thread that gives the proxy its turn.
 */
final class GinPeer {
  static final int ACKNOWLEDGEMENT = -1;
  private static final int COMMUNICATOR = 24;

  private final int rank;
  private final ConnectionLayout layout;

  // Messages to the rank.
  private final NativeWords toData;
  private final NativeWords toCredit;
  private final long toSlots;
  private final Part[] parts = new Part[ConnectionLayout.STEPS];
  private long begun;
  private long acknowledged;

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

  /** A message whose data are being copied into its slot. */
  static final class Part {
    final GinPeer peer;
    long step;
    long copies;
    int size;

    /** The ring whose descriptor ends with this message; else null. */
    GinRing ends;

    Part(GinPeer peer) {
      this.peer = peer;
    }
  }

  GinPeer(int rank, Connection send, Connection recv, ConnectionLayout layout, GinDevice device) {
    this.rank = rank;
    this.layout = layout;
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

  // ---- To the rank ----

  /** True if a message can be begun. */
  boolean hasCredit() {
    long head = toCredit.getLong(ConnectionLayout.HEAD);
    VarHandle.acquireFence();
    return begun - head < ConnectionLayout.STEPS;
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
    toData.putLong(slot + COMMUNICATOR, communicator);
    Part part = parts[slot(begun)];
    part.step = begun;
    part.size = RmaMessage.HEADER + Math.max(0, bytes);
    begun++;
    return part;
  }

  /** Publishes a message, whose data are in its slot, to the transport. */
  void post(Part part) {
    toData.putInt(ConnectionLayout.size(part.step), part.size);
    VarHandle.releaseFence();
    toData.putLong(ConnectionLayout.TAIL, part.step + 1);
  }

  /** Messages of this rank that have arrived there. */
  long acknowledged() {
    return acknowledged;
  }

  // ---- From the rank ----

  /** True if a message has come that was not looked at. */
  boolean hasMessage() {
    long tail = fromData.getLong(ConnectionLayout.TAIL);
    VarHandle.acquireFence();
    return tail > taken;
  }

  boolean isAcknowledgement() {
    return bytes() == ACKNOWLEDGEMENT;
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
    return fromData.getLong(layout.simple(taken) + COMMUNICATOR);
  }

  /** Where the data of the message are, as kernels see it. */
  long data() {
    return fromSlots + layout.simple(taken) + RmaMessage.HEADER;
  }

  /** The message is an acknowledgement. */
  void acknowledge() {
    acknowledged = offset();
    take(0, null, 0);
  }

  /**
   * The message is being put where it belongs.
   *
   * @param copy number of the last copy that has to be done first
   * @param ring whose signal it raises; null for none
   */
  void take(long copy, GinRing ring, int signal) {
    int slot = slot(taken);
    copies[slot] = copy;
    rings[slot] = ring;
    signals[slot] = signal;
    if (!isAcknowledgement()) {
      acknowledgementDue = taken + 1;
    }
    taken++;
  }

  /** Raises the signals of messages that are where they belong, and gives their slots back. */
  int finish(long copied) {
    long before = done;
    while (done < taken && copies[slot(done)] <= copied) {
      GinRing ring = rings[slot(done)];
      if (ring != null) {
        ring.raise(signals[slot(done)]);
      }
      done++;
    }
    if (done > before) {
      VarHandle.releaseFence();
      fromCredit.putLong(ConnectionLayout.HEAD, done);
    }
    return (int) (done - before);
  }

  /** True if the rank is to be told of messages that have arrived. Acknowledgements are not. */
  boolean owesAcknowledgement() {
    return Math.min(done, acknowledgementDue) > acknowledgementSent && hasCredit();
  }

  Part beginAcknowledgement() {
    acknowledgementSent = done;
    return begin(0, done, ACKNOWLEDGEMENT, 0, 0);
  }

  private static int slot(long step) {
    return (int) step & (ConnectionLayout.STEPS - 1);
  }
}
