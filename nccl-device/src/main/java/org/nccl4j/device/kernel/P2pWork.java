package org.nccl4j.device.kernel;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.symmetric.WindowView;
import org.nccl4j.operation.Protocol;

/**
 * One send or receive among several that progress together.
 *
 * @param kind whether it sends or receives
 * @param peer the other rank; may be this rank: then the kernel copies from the n-th send to itself
 *     to the n-th receive from itself
 * @param buffer the data, or null for the launch's own send or receive buffer
 * @param offset where the data begin in it
 * @param bytes how many
 * @param protocol how a step is handed over; the same at both ends, since both choose it by the
 *     size
 * @param offer null where the receiver does not say first where the data may go; the same at both
 *     ends
 * @param copies whether copy engines do it where the device has such and no proxy carries the
 *     connection, instead of a kernel; the same at both ends
 * @param signature what the data carry, the same at both ends; see {@link CallSignature}
 * @param mostChannels that a kernel moves it on, each by a block; the same at both ends. 0 for all
 *     that the connection has
 */
public record P2pWork(
    Kind kind,
    int peer,
    DeviceMemory buffer,
    long offset,
    long bytes,
    Protocol protocol,
    Offer offer,
    boolean copies,
    int signature,
    int mostChannels) {
  /**
   * The receiver's offer of a window address for direct writes.
   *
   * @param window that the data lie in; null if they lie in none, and at the sender of no matter
   */
  public record Offer(WindowView window) {
    /** Offer of a message whose data lie in no window of this rank. */
    public static final Offer NONE = new Offer(null);

    /** Bytes of a message from which on offers pay: they take a flight. */
    public static final long LEAST_BYTES = 2 << 20;
  }

  /** A send or receive of a user, which is all of its call. */
  public P2pWork(
      Kind kind,
      int peer,
      DeviceMemory buffer,
      long offset,
      long bytes,
      Protocol protocol,
      Offer offer,
      boolean copies) {
    this(
        kind,
        peer,
        buffer,
        offset,
        bytes,
        protocol,
        offer,
        copies,
        CallSignature.ofMessage(bytes),
        0);
  }

  /** The same as a part of another call. */
  public P2pWork signed(int newSignature) {
    return new P2pWork(
        kind, peer, buffer, offset, bytes, protocol, offer, copies, newSignature, mostChannels);
  }

  /** The same on no more than so many channels; 0 for all. */
  public P2pWork onAtMost(int channels) {
    return new P2pWork(
        kind, peer, buffer, offset, bytes, protocol, offer, copies, signature, channels);
  }

  /** A send or receive without an offer. */
  public P2pWork(
      Kind kind, int peer, DeviceMemory buffer, long offset, long bytes, Protocol protocol) {
    this(kind, peer, buffer, offset, bytes, protocol, null);
  }

  /** A send or receive by a kernel. */
  public P2pWork(
      Kind kind,
      int peer,
      DeviceMemory buffer,
      long offset,
      long bytes,
      Protocol protocol,
      Offer offer) {
    this(kind, peer, buffer, offset, bytes, protocol, offer, false);
  }

  /** Direction. */
  public enum Kind {
    /** Out of the buffer. */
    SEND,
    /** Into the buffer. */
    RECV
  }
}
