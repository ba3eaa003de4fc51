package org.nccl4j.api.init.connect;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalInt;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;

/**
 * A rank's connector handles for all other ranks, a record for each peer: the handle of the sender
 * to it and of the receiver from it, each after its length (a short); the rank that sends for this
 * one, or -1 (an int); the transport's name, after its length (a byte).
 */
final class ConnectHandles {
  private ConnectHandles() {}

  /**
   * Handles of a rank for its connections with a peer.
   *
   * @param sender handle; empty where it does not connect
   * @param receiver handle, likewise
   * @param relay the rank that carries what the sender sends, or -1 for itself
   * @param transport by which it does; empty without a relay
   */
  record Offer(byte[] sender, byte[] receiver, int relay, String transport) {
    private static final Offer NONE = new Offer(new byte[0], new byte[0], -1, "");

    static Offer of(Connector sender, Connector receiver, Routes.NamedTransport route) {
      if (sender == null) {
        return NONE;
      }
      OptionalInt relay = sender.relay();
      return new Offer(
          checked(sender.handle(), route),
          checked(receiver.handle(), route),
          relay.orElse(-1),
          relay.isPresent() ? route.name() : "");
    }

    private static byte[] checked(byte[] handle, Routes.NamedTransport route) {
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
      return 2 * Short.BYTES + sender.length + receiver.length + Integer.BYTES + 1 + name().length;
    }
  }

  static byte[] toBytes(List<Offer> offers) {
    ByteBuffer bytes = ByteBuffer.allocate(offers.stream().mapToInt(Offer::bytes).sum());
    for (Offer offer : offers) {
      bytes.putShort((short) offer.sender.length).put(offer.sender);
      bytes.putShort((short) offer.receiver.length).put(offer.receiver);
      bytes.putInt(offer.relay).put((byte) offer.name().length).put(offer.name());
    }
    return bytes.array();
  }

  /**
   * Decodes another rank's offers, by peer.
   *
   * @param rank the other
   * @throws InvalidUsageException if it is not understood
   */
  static List<Offer> fromBytes(int rank, byte[] told, int nRanks) {
    List<Offer> offers = new ArrayList<>();
    try {
      ByteBuffer bytes = ByteBuffer.wrap(told);
      while (bytes.hasRemaining()) {
        byte[] sender = take(bytes, bytes.getShort());
        byte[] receiver = take(bytes, bytes.getShort());
        int relay = bytes.getInt();
        String name = new String(take(bytes, bytes.get() & 0xff), StandardCharsets.UTF_8);
        offers.add(new Offer(sender, receiver, relay, name));
      }
    } catch (BufferUnderflowException | NegativeArraySizeException e) {
      throw notUnderstood(rank, e.toString(), e);
    }
    if (offers.size() != nRanks) {
      throw notUnderstood(rank, "for %d of %d ranks".formatted(offers.size(), nRanks), null);
    }
    return offers;
  }

  private static byte[] take(ByteBuffer bytes, int length) {
    if (length > bytes.remaining()) {
      throw new BufferUnderflowException();
    }
    byte[] taken = new byte[length];
    bytes.get(taken);
    return taken;
  }

  private static InvalidUsageException notUnderstood(int rank, String why, Exception cause) {
    return new InvalidUsageException(
        ErrorId.RANKS_DIFFER,
        "rank %d sent handles that are not understood (%s)".formatted(rank, why),
        "run the same version of nccl4j on all ranks",
        cause);
  }
}
