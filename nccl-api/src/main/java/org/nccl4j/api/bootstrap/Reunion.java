package org.nccl4j.api.bootstrap;

import java.net.InetSocketAddress;
import java.net.ProtocolException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.nccl4j.device.InvalidUsageException;

/** How some ranks of a TCP bootstrap make another one: the first of them has its root. */
final class Reunion {
  private final JoinRequest old;
  private final Identity self;
  private final String key;

  Reunion(JoinRequest old, Identity self, String key) {
    this.old = old;
    this.self = self;
    this.key = key;
  }

  /**
   * Brings them together.
   *
   * @param place this rank's among the members
   * @param lead where the first member's meeting point is
   * @param publish tells this rank's meeting point the way, if it is the first
   */
  Bootstrap meet(int place, int nRanks, byte[] lead, java.util.function.Consumer<byte[]> publish) {
    BootstrapOptions given = old.options();
    BootstrapOptions options =
        new BootstrapOptions(
            "", "", given.interfaces(), given.family(), given.ports(), given.silence());
    Duration limit = old.deadline();
    BootstrapId id;
    if (place == 0) {
      id = BootstrapRoot.create(options, limit, secret());
      publish.accept(id.withSecret(new byte[BootstrapId.SECRET_BYTES]).encode());
    } else {
      Deadline deadline = Deadline.after(limit);
      byte[] way = MeetingCall.ask(decode(lead), old.id().secret(), key, deadline);
      id = BootstrapId.decode(way).withSecret(secret());
    }
    return TcpBootstrap.join(new JoinRequest(nRanks, id, place, limit, options), self);
  }

  /** Derived, so that it never travels. */
  private byte[] secret() {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(old.id().secret(), "HmacSHA256"));
      byte[] hash = mac.doFinal(("reunion\n" + key).getBytes(StandardCharsets.UTF_8));
      return Arrays.copyOf(hash, BootstrapId.SECRET_BYTES);
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException("every Java platform has HmacSHA256", e);
    }
  }

  /** A meeting point's address as bytes. */
  static byte[] encode(InetSocketAddress where) {
    ByteBuffer frame = new MessageWriter(FrameType.MEET).address(where).done();
    byte[] bytes = new byte[frame.remaining() - MessageWriter.HEADER_BYTES];
    frame.position(MessageWriter.HEADER_BYTES).get(bytes);
    return bytes;
  }

  private static InetSocketAddress decode(byte[] bytes) {
    try {
      return new MessageReader(ByteBuffer.wrap(bytes)).address();
    } catch (ProtocolException e) {
      throw new InvalidUsageException(
          "a rank's meeting point is not understood (" + e.getMessage() + ")",
          "run the same version of nccl4j on all ranks",
          e);
    }
  }

  /** A list of ranks, for keys. */
  static String text(List<Integer> members) {
    return members.size() <= 64
        ? members.toString()
        : members.size() + " ranks " + Integer.toHexString(members.hashCode());
  }
}
