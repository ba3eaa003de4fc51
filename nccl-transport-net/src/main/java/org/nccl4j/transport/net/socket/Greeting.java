package org.nccl4j.transport.net.socket;

import java.net.ProtocolException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.Arrays;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * The keyed challenge with which every socket begins: each side proves that it knows the
 * communicator's secret for nonces that both chose, before anything else is read. Bytes in, bytes
 * out; knows no socket.
 *
 * <pre>
 *   client                                        server
 *   hello(nonce c, token, index, sockets)  --&gt;
 *                                          &lt;--    hello(nonce s)
 *   HMAC("client", hello, hello)           --&gt;    checks it, or closes
 *                     checks it, or closes &lt;--    HMAC("server", hello, hello)
 * </pre>
 *
 * <p>A hello is magic (8), version (1; now 2), side (1: 0 client, 1 server), nonce (16); the
 * client's goes on with the token (16) of the listener that it wants, the index (1) of this socket,
 * 127 if it is a pair's, and the number of sockets (1). Proofs are HMAC-SHA256 under the secret
 * over both hellos. Fresh nonces of both sides make a recorded exchange worthless; the side in the
 * proof makes a reflected one worthless.
 */
final class Greeting {
  static final int TOKEN_BYTES = SocketHandle.TOKEN_BYTES;

  private static final byte[] MAGIC = "NCCL4JNS".getBytes(StandardCharsets.US_ASCII);
  private static final byte VERSION = 2;
  private static final int NONCE_BYTES = 16;
  private static final int SERVER_BYTES = MAGIC.length + 2 + NONCE_BYTES;
  private static final int CLIENT_BYTES = SERVER_BYTES + TOKEN_BYTES + 2;
  private static final int PROOF_BYTES = 32;
  private static final SecureRandom RANDOM = new SecureRandom();

  private final byte[] secret;
  private final boolean client;
  private final byte[] ours;
  private byte[] theirs;
  private boolean done;

  private Greeting(byte[] secret, boolean client, byte[] ours) {
    this.secret = secret;
    this.client = client;
    this.ours = ours;
  }

  static byte[] random(int bytes) {
    byte[] random = new byte[bytes];
    RANDOM.nextBytes(random);
    return random;
  }

  static Greeting client(byte[] secret, byte[] token, int index, int sockets) {
    ByteBuffer hello = hello(CLIENT_BYTES, 0);
    hello.put(token).put((byte) index).put((byte) sockets);
    return new Greeting(secret, true, hello.array());
  }

  static Greeting server(byte[] secret) {
    return new Greeting(secret, false, hello(SERVER_BYTES, 1).array());
  }

  private static ByteBuffer hello(int bytes, int side) {
    return ByteBuffer.allocate(bytes)
        .put(MAGIC)
        .put(VERSION)
        .put((byte) side)
        .put(random(NONCE_BYTES));
  }

  /** What to send before anything has come; empty for a server. */
  byte[] opening() {
    return client ? ours : new byte[0];
  }

  /** How many bytes the next step takes. */
  int wanted() {
    return theirs != null ? PROOF_BYTES : client ? SERVER_BYTES : CLIENT_BYTES;
  }

  /** Whether the other side has been shown our proof, or will be, and has not answered it. */
  boolean isProving() {
    return client && theirs != null && !done;
  }

  /** Whether the other side has proved that it knows the secret. */
  boolean done() {
    return done;
  }

  /**
   * Takes the other side's bytes and returns the answer, which may be empty.
   *
   * @throws ProtocolException if it does not know the secret, or speaks something else
   */
  byte[] step(byte[] message) throws ProtocolException {
    if (theirs == null) {
      check(message);
      theirs = message.clone();
      return client ? proof(true) : ours;
    }
    if (!MessageDigest.isEqual(proof(!client), message)) {
      throw new ProtocolException("it does not know the communicator's secret");
    }
    done = true;
    return client ? new byte[0] : proof(false);
  }

  private void check(byte[] message) throws ProtocolException {
    if (!MessageDigest.isEqual(MAGIC, Arrays.copyOf(message, MAGIC.length))) {
      throw new ProtocolException("it does not speak nccl4j's network protocol");
    }
    if (message[MAGIC.length] != VERSION) {
      throw new ProtocolException(
          "its protocol has version %d, ours %d".formatted(message[MAGIC.length], VERSION));
    }
    if (message[MAGIC.length + 1] != (client ? 1 : 0)) {
      throw new ProtocolException("it takes itself for the other side");
    }
  }

  /** Which listener the client wants; once its hello has come. */
  byte[] token() {
    return Arrays.copyOfRange(theirs, SERVER_BYTES, SERVER_BYTES + TOKEN_BYTES);
  }

  /** Which socket of the connection this is. */
  int index() {
    return theirs[SERVER_BYTES + TOKEN_BYTES];
  }

  /** How many sockets the connection has. */
  int sockets() {
    return theirs[SERVER_BYTES + TOKEN_BYTES + 1];
  }

  private byte[] proof(boolean byClient) {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(secret, "HmacSHA256"));
      mac.update((byClient ? "client" : "server").getBytes(StandardCharsets.US_ASCII));
      mac.update(client ? ours : theirs);
      mac.update(client ? theirs : ours);
      return mac.doFinal();
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException("every Java platform has HmacSHA256", e);
    }
  }
}
