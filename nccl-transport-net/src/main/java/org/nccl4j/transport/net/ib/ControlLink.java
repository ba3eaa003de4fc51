package org.nccl4j.transport.net.ib;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ByteChannel;
import java.nio.channels.ClosedChannelException;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.SecureRandom;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.nccl4j.device.InternalErrorException;

/**
 * The TCP connection over which two ends tell each other their queue pairs, and which stays open so
 * that each learns when the other closes or dies. Never blocks. Owned by one thread at a time.
 *
 * <p>Each end proves that it knows the communicator's secret before it is told where the other
 * end's memory is:
 *
 * <pre>
 *   sender                              receiver
 *   32 random bytes              --&gt;
 *                                &lt;--    32 random bytes
 *   proof                        --&gt;    checks it, or closes
 *          checks it, or closes  &lt;--    proof
 *   RemoteEnd, digest            --&gt;
 *                                &lt;--    RemoteEnd, digest
 *   a byte: it is ready          --&gt;
 * </pre>
 *
 * <p>Proofs and digests are HMAC-SHA256 under the secret over the role, the kind of message, the
 * session, both ends' random bytes and the message: none can be forged, nor said again to another
 * connection, in the other direction or as another kind. All of it goes by TLS where the user has
 * set that.
 */
final class ControlLink implements AutoCloseable {
  static final int NONCE_BYTES = 32;
  private static final int MAC_BYTES = 32;
  private static final byte PROOF = 'P';
  private static final byte END = 'E';
  private static final byte GOODBYE = 2;
  private static final byte[] NOTHING = {};
  private static final SecureRandom RANDOM = new SecureRandom();

  private final ByteChannel channel;
  private final byte[] secret;
  private final long session;
  private final boolean sender;
  private final byte[] ownNonce = new byte[NONCE_BYTES];
  private final byte[] otherNonce = new byte[NONCE_BYTES];
  private final ByteBuffer in = ByteBuffer.allocateDirect(RemoteEnd.BYTES + MAC_BYTES);
  private boolean goodbye;
  private ByteBuffer out = ByteBuffer.allocate(0);

  /** Over a connected channel that never waits. */
  ControlLink(ByteChannel channel, byte[] secret, long session, boolean sender) {
    this.channel = channel;
    this.secret = secret;
    this.session = session;
    this.sender = sender;
    RANDOM.nextBytes(ownNonce);
  }

  /** Begins to send the random bytes. */
  void sendNonce() {
    out = ByteBuffer.wrap(ownNonce.clone());
  }

  /**
   * Begins to send the proof that this end knows the secret; the other's random bytes have come.
   */
  void sendProof() {
    out = ByteBuffer.wrap(digest(sender, PROOF, ownNonce, otherNonce, NOTHING));
  }

  /** Begins to send a description of this end; the other has proved that it knows the secret. */
  void sendEnd(RemoteEnd end) {
    byte[] message = end.encode();
    out = ByteBuffer.allocate(message.length + MAC_BYTES);
    out.put(message).put(digest(sender, END, ownNonce, otherNonce, message)).flip();
  }

  /** Begins to send a byte that says that this end is ready. */
  void sendReady() {
    out = ByteBuffer.wrap(new byte[] {1});
  }

  /** Sends more of what has begun, and says whether all is sent. */
  boolean flush() throws IOException {
    if (out.hasRemaining()) {
      channel.write(out);
    }
    return !out.hasRemaining();
  }

  /** Whether the other end's random bytes have come. */
  boolean receiveNonce() throws IOException {
    if (!fill(NONCE_BYTES)) {
      return false;
    }
    in.get(otherNonce);
    in.clear();
    return true;
  }

  /**
   * Whether the other end's proof has come.
   *
   * @throws StrangerException if it does not know the secret
   */
  boolean receiveProof() throws IOException {
    if (!fill(MAC_BYTES)) {
      return false;
    }
    byte[] proof = new byte[MAC_BYTES];
    in.get(proof);
    in.clear();
    if (!MessageDigest.isEqual(proof, digest(!sender, PROOF, otherNonce, ownNonce, NOTHING))) {
      throw new StrangerException();
    }
    return true;
  }

  /**
   * The other end's description once it has come, else null.
   *
   * @throws StrangerException if it does not know the secret
   */
  RemoteEnd receiveEnd() throws IOException {
    if (!fill(RemoteEnd.BYTES + MAC_BYTES)) {
      return null;
    }
    byte[] message = new byte[RemoteEnd.BYTES];
    byte[] mac = new byte[MAC_BYTES];
    in.get(message).get(mac);
    in.clear();
    if (!MessageDigest.isEqual(mac, digest(!sender, END, otherNonce, ownNonce, message))) {
      throw new StrangerException();
    }
    return RemoteEnd.decode(message);
  }

  /** Whether the other end has said that it is ready. */
  boolean receiveReady() throws IOException {
    return fill(1);
  }

  /** Says that this end closes in order: all that it had to send has been received. */
  void sayGoodbye() {
    try {
      channel.write(ByteBuffer.wrap(new byte[] {GOODBYE}));
    } catch (IOException e) {
      return; // the other end is gone already, and hears nothing
    }
  }

  /** Whether the other end has closed or died, and has not said goodbye before. */
  boolean isOver() {
    if (goodbye) {
      return false;
    }
    try {
      in.clear().limit(1);
      int read = channel.read(in);
      goodbye = read > 0;
      return read < 0;
    } catch (IOException e) {
      return true;
    }
  }

  /** Reads until there are so many bytes; then they can be taken from the begin of the buffer. */
  private boolean fill(int bytes) throws IOException {
    in.limit(bytes);
    if (in.hasRemaining() && channel.read(in) < 0) {
      throw new ClosedChannelException();
    }
    if (in.hasRemaining()) {
      return false;
    }
    in.flip();
    return true;
  }

  private byte[] digest(boolean bySender, byte kind, byte[] first, byte[] second, byte[] message) {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(secret, "HmacSHA256"));
      mac.update((byte) (bySender ? 'S' : 'R'));
      mac.update(kind);
      mac.update(ByteBuffer.allocate(Long.BYTES).putLong(0, session));
      mac.update(first);
      mac.update(second);
      return mac.doFinal(message);
    } catch (GeneralSecurityException e) {
      throw new InternalErrorException(
          "this Java has no HmacSHA256", "use a complete Java runtime", e);
    }
  }

  @Override
  public void close() {
    try {
      channel.close();
    } catch (IOException e) {
      // It is of no use any more either way.
      return;
    }
  }
}
