package org.nccl4j.api.init.connect;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.function.BiPredicate;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.PxnTransport;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;

/**
 * A rank's connector handles for the ranks that it connects with, a record for each: the peer, the
 * rank that sends for this one or -1, and the length of the rest (an int each); the handle of the
 * sender to the peer and of the receiver from it, each after its length (a short); the transport's
 * name, after its length (a byte). A reader decodes only the records that concern it.
 */
final class ConnectHandles {
  private static final int HEADER_BYTES = 3 * Integer.BYTES;

  private ConnectHandles() {}

  /**
   * Handles of a rank for its connections with a peer.
   *
   * @param sender handle
   * @param receiver handle
   * @param relay the rank that carries what the sender sends, or -1 for itself
   * @param transport by which it does; empty without a relay
   */
  record Offer(byte[] sender, byte[] receiver, int relay, String transport) {
    static Offer of(Connector sender, Connector receiver, TransportRoutes.NamedTransport route) {
      OptionalInt relay =
          route.transport() instanceof PxnTransport pxn ? pxn.relay(sender) : OptionalInt.empty();
      return new Offer(
          checked(sender.handle(), route),
          checked(receiver.handle(), route),
          relay.orElse(-1),
          relay.isPresent() ? route.name() : "");
    }

    private static byte[] checked(byte[] handle, TransportRoutes.NamedTransport route) {
      if (handle.length > Connector.HANDLE_BYTES) {
        throw new InvalidUsageException(
            ErrorId.PLUGIN,
            "transport %s gives a handle of %d bytes".formatted(route.name(), handle.length),
            "its author must keep handles within " + Connector.HANDLE_BYTES + " bytes");
      }
      return handle;
    }

    private byte[] name() {
      return transport.getBytes(StandardCharsets.UTF_8);
    }

    private int bytes() {
      return 2 * Short.BYTES + sender.length + receiver.length + 1 + name().length;
    }
  }

  /** Encodes offers by peer. */
  static byte[] toBytes(Map<Integer, Offer> offers) {
    int length = offers.values().stream().mapToInt(offer -> HEADER_BYTES + offer.bytes()).sum();
    ByteBuffer bytes = ByteBuffer.allocate(length);
    offers.forEach(
        (peer, offer) -> {
          bytes.putInt(peer).putInt(offer.relay).putInt(offer.bytes());
          bytes.putShort((short) offer.sender.length).put(offer.sender);
          bytes.putShort((short) offer.receiver.length).put(offer.receiver);
          bytes.put((byte) offer.name().length).put(offer.name());
        });
    return bytes.array();
  }

  /**
   * Decodes another rank's offer to a peer; empty if it makes none.
   *
   * @param rank the other
   * @throws InvalidUsageException if it is not understood
   */
  static Optional<Offer> find(int rank, byte[] told, int peer) {
    return Optional.ofNullable(read(rank, told, (to, relay) -> to == peer).get(peer));
  }

  /** Decodes the offers of another rank whose data a relay is to send, by peer; throws as find. */
  static Map<Integer, Offer> relayedBy(int relay, int rank, byte[] told) {
    return read(rank, told, (to, by) -> by == relay);
  }

  private static Map<Integer, Offer> read(
      int rank, byte[] told, BiPredicate<Integer, Integer> wanted) {
    Map<Integer, Offer> offers = new LinkedHashMap<>();
    try {
      ByteBuffer bytes = ByteBuffer.wrap(told);
      while (bytes.hasRemaining()) {
        int peer = bytes.getInt();
        int relay = bytes.getInt();
        ByteBuffer rest = ByteBuffer.wrap(told, bytes.position() + Integer.BYTES, length(bytes));
        bytes.position(rest.limit());
        if (wanted.test(peer, relay)) {
          byte[] sender = take(rest, rest.getShort());
          byte[] receiver = take(rest, rest.getShort());
          String name = new String(take(rest, rest.get() & 0xff), StandardCharsets.UTF_8);
          offers.put(peer, new Offer(sender, receiver, relay, name));
        }
      }
    } catch (BufferUnderflowException | NegativeArraySizeException e) {
      throw notUnderstood(rank, e);
    }
    return offers;
  }

  private static int length(ByteBuffer bytes) {
    int length = bytes.getInt();
    if (length < 0 || length > bytes.remaining()) {
      throw new BufferUnderflowException();
    }
    return length;
  }

  private static byte[] take(ByteBuffer bytes, int length) {
    if (length > bytes.remaining()) {
      throw new BufferUnderflowException();
    }
    byte[] taken = new byte[length];
    bytes.get(taken);
    return taken;
  }

  private static InvalidUsageException notUnderstood(int rank, Exception cause) {
    return new InvalidUsageException(
        ErrorId.RANKS_DIFFER,
        "rank %d sent handles that this rank cannot read (%s)".formatted(rank, cause),
        "run the same version of nccl4j on all ranks",
        cause);
  }
}
