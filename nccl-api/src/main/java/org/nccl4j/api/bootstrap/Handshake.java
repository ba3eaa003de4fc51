package org.nccl4j.api.bootstrap;

import java.net.ProtocolException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * The keyed challenge with which every connection begins: each side proves that it knows the
 * communicator's secret for nonces that both chose, before anything else is read. Bytes in, bytes
 * out; knows no socket.
 *
 * <pre>
 *   client                                    server
 *   greeting(client, nonce c)          -->
 *                                      &lt;--    greeting(server, nonce s)
 *   HMAC("client", purpose, c, s)      -->    checks it, or closes
 *             checks it, or closes     &lt;--    HMAC("server", purpose, c, s)
 * </pre>
 *
 * <p>A greeting is magic (8), version (1), side (1: 0 client, 1 server), purpose (1), nonce (16);
 * proofs are HMAC-SHA256 under the secret. Fresh nonces of both sides make a recorded exchange
 * worthless; side and purpose in the proof make a reflected one worthless. The client proves first,
 * so a stranger gets nothing computed from the secret.
 */
final class Handshake {
  /** What a connection is for. */
  enum Purpose {
    /** A rank's connection to the root. */
    CONTROL,
    /** A rank's connection to the next one. */
    RING
  }

  static final int GREETING_BYTES = 27;
  static final int PROOF_BYTES = 32;
  private static final byte[] MAGIC = "NCCL4JBS".getBytes(StandardCharsets.US_ASCII);
  private static final byte VERSION = 1;
  private static final int NONCE_BYTES = 16;

  private final byte[] secret;
  private final Purpose purpose;
  private final boolean client;
  private final byte[] ourNonce = Identity.randomBytes(NONCE_BYTES);
  private byte[] theirNonce;
  private boolean done;

  private Handshake(byte[] secret, Purpose purpose, boolean client) {
    this.secret = secret;
    this.purpose = purpose;
    this.client = client;
  }

  static Handshake client(byte[] secret, Purpose purpose) {
    return new Handshake(secret, purpose, true);
  }

  static Handshake server(byte[] secret, Purpose purpose) {
    return new Handshake(secret, purpose, false);
  }

  /** What to send before anything has come; empty for a server. */
  byte[] opening() {
    return client ? greeting() : new byte[0];
  }

  /** How many bytes the next step takes. */
  int wanted() {
    return theirNonce == null ? GREETING_BYTES : PROOF_BYTES;
  }

  /** Whether the other side has proved that it knows the secret. */
  boolean done() {
    return done;
  }

  /** Whether the other side has been shown our proof and not yet answered. */
  boolean proving() {
    return client && theirNonce != null && !done;
  }

  /**
   * Takes the other side's bytes and returns the answer, which may be empty.
   *
   * @throws ProtocolException if it does not know the secret, or speaks something else
   */
  byte[] step(byte[] message) throws ProtocolException {
    if (theirNonce == null) {
      theirNonce = nonceOf(message);
      return client ? proof(true) : greeting();
    }
    if (!MessageDigest.isEqual(proof(!client), message)) {
      throw new ProtocolException("it does not know the communicator's secret");
    }
    done = true;
    return client ? new byte[0] : proof(false);
  }

  private byte[] greeting() {
    return ByteBuffer.allocate(GREETING_BYTES)
        .put(MAGIC)
        .put(VERSION)
        .put((byte) (client ? 0 : 1))
        .put((byte) purpose.ordinal())
        .put(ourNonce)
        .array();
  }

  private byte[] nonceOf(byte[] message) throws ProtocolException {
    ByteBuffer in = ByteBuffer.wrap(message);
    byte[] magic = new byte[MAGIC.length];
    in.get(magic);
    if (!MessageDigest.isEqual(magic, MAGIC)) {
      throw new ProtocolException("it does not speak nccl4j's bootstrap protocol");
    }
    int version = in.get();
    if (version != VERSION) {
      throw new ProtocolException("its handshake has version " + version + ", ours " + VERSION);
    }
    if (in.get() != (client ? 1 : 0) || in.get() != purpose.ordinal()) {
      throw new ProtocolException("it wants something else than this port is for");
    }
    byte[] nonce = new byte[NONCE_BYTES];
    in.get(nonce);
    return nonce;
  }

  private byte[] proof(boolean byClient) {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(secret, "HmacSHA256"));
      mac.update((byClient ? "client" : "server").getBytes(StandardCharsets.US_ASCII));
      mac.update((byte) purpose.ordinal());
      mac.update(client ? ourNonce : theirNonce);
      mac.update(client ? theirNonce : ourNonce);
      return mac.doFinal();
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException("every Java platform has HmacSHA256", e);
    }
  }
}
