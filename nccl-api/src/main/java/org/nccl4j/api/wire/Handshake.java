package org.nccl4j.api.wire;

import java.net.ProtocolException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Arrays;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.nccl4j.device.os.KernelRandom;

/**
 * The keyed challenge with which every connection begins: each side proves that it knows the
 * communicator's secret for nonces that both chose, before anything else is read. Bytes in, bytes
 * out; knows no socket.
 *
 * <pre>
 *   client                                   server
 *   hello(client, nonce c, request)   --&gt;
 *                                     &lt;--    hello(server, nonce s)
 *   HMAC("client", hello, hello)      --&gt;    checks it, or closes
 *             checks it, or closes    &lt;--    HMAC("server", hello, hello)
 * </pre>
 *
 * <p>A hello is magic (8), version (1; now 1), side (1: 0 client, 1 server), service (1), nonce
 * (16); the client's continues with the request (18) to the service. Proofs are HMAC-SHA256 under
 * the secret over the hellos, the client's first. Fresh nonces of both sides make a recorded
 * exchange worthless; side and service in the proof make a reflected one worthless. The client
 * proves first, so an unknown client receives nothing computed from the secret.
 */
public final class Handshake {
  /** The purpose of a connection. */
  public enum Service {
    /** A rank's connection to the bootstrap's root. */
    ROOT,
    /** A connection to a rank, in the ring or for a question; the request is its rank (4). */
    RING,
    /** A socket of the socket network; the request is token (16), index (1), sockets (1). */
    SOCKET,
    /** A control connection of InfiniBand; the request is the listener's session (8). */
    INFINIBAND
  }

  /** Length of a server's hello. */
  public static final int HELLO_BYTES = 27;

  public static final int PROOF_BYTES = 32;

  /** Length of a request; a shorter one is padded with zeros. */
  public static final int REQUEST_BYTES = 18;

  private static final byte[] MAGIC = "NCCL4JWR".getBytes(StandardCharsets.US_ASCII);
  private static final byte VERSION = 1;
  private static final int NONCE_BYTES = 16;

  /** The first bytes of a client's greeting in TLS: the kind of record, and the version's first. */
  private static final byte TLS_HANDSHAKE = 22;

  private static final byte TLS_MAJOR = 3;

  private final byte[] secret;
  private final Service service;
  private final boolean client;
  private final byte[] ours;
  private byte[] theirs;
  private boolean done;

  private Handshake(byte[] secret, Service service, boolean client, byte[] request) {
    this.secret = secret;
    this.service = service;
    this.client = client;
    byte[] nonce = KernelRandom.bytes(NONCE_BYTES);
    ours =
        ByteBuffer.allocate(HELLO_BYTES + request.length)
            .put(MAGIC)
            .put(VERSION)
            .put((byte) (client ? 0 : 1))
            .put((byte) service.ordinal())
            .put(nonce)
            .put(request)
            .array();
  }

  /** The side that connects, to a service of which there is one. */
  public static Handshake client(byte[] secret, Service service) {
    return client(secret, service, new byte[0]);
  }

  /**
   * The side that connects.
   *
   * @param request at most {@link #REQUEST_BYTES}, readable by all on the way
   */
  public static Handshake client(byte[] secret, Service service, byte[] request) {
    return new Handshake(secret, service, true, Arrays.copyOf(request, REQUEST_BYTES));
  }

  /** The side that accepts. */
  public static Handshake server(byte[] secret, Service service) {
    return new Handshake(secret, service, false, new byte[0]);
  }

  /** Returns the bytes to send before anything has come; empty for a server. */
  public byte[] opening() {
    return client ? ours.clone() : new byte[0];
  }

  /** Returns the number of bytes that the next step takes. */
  public int wanted() {
    return theirs != null ? PROOF_BYTES : client ? HELLO_BYTES : HELLO_BYTES + REQUEST_BYTES;
  }

  /** True if the other side has proved that it knows the secret. */
  public boolean done() {
    return done;
  }

  /** True if this is the side that accepts. */
  public boolean isServer() {
    return !client;
  }

  /** True if the other side has been shown our proof, or will be, and has not answered it. */
  public boolean proving() {
    return client && theirs != null && !done;
  }

  /** Returns the client's request; on the server, once the client's hello has come. */
  public ByteBuffer request() {
    return ByteBuffer.wrap(theirs, HELLO_BYTES, REQUEST_BYTES).slice();
  }

  /**
   * Takes the other side's bytes and returns the answer, which may be empty.
   *
   * @throws ProtocolException if it does not know the secret, or uses another protocol
   */
  public byte[] step(byte[] message) throws ProtocolException {
    if (theirs == null) {
      check(message);
      theirs = message.clone();
      return client ? mac("client", new byte[0]) : ours.clone();
    }
    if (!MessageDigest.isEqual(mac(client ? "server" : "client", new byte[0]), message)) {
      throw stranger();
    }
    done = true;
    return client ? new byte[0] : mac("server", new byte[0]);
  }

  /** A proof of {@link #PROOF_BYTES} that this side says a message, after the handshake. */
  public byte[] sign(byte[] message) {
    return mac(client ? "client says" : "server says", message);
  }

  /**
   * Checks the other side's proof that it says a message.
   *
   * @throws ProtocolException if it is no greeting
   */
  public void verify(byte[] message, byte[] proof) throws ProtocolException {
    if (!MessageDigest.isEqual(mac(client ? "server says" : "client says", message), proof)) {
      throw stranger();
    }
  }

  private static ProtocolException stranger() {
    return new ProtocolException("it does not know the communicator's secret");
  }

  private void check(byte[] message) throws ProtocolException {
    ByteBuffer in = ByteBuffer.wrap(message);
    byte[] magic = new byte[MAGIC.length];
    in.get(magic);
    if (!MessageDigest.isEqual(magic, MAGIC)) {
      throw new ProtocolException(
          magic[0] == TLS_HANDSHAKE && magic[1] == TLS_MAJOR
              ? "it speaks TLS; set NCCL4J_TLS_CERT on all ranks or on none"
              : "it does not speak nccl4j's protocol");
    }
    int version = in.get();
    if (version != VERSION) {
      throw new ProtocolException("its handshake has version " + version + ", ours " + VERSION);
    }
    if (in.get() != (client ? 1 : 0) || in.get() != service.ordinal()) {
      throw new ProtocolException("it requests another service than this port's");
    }
  }

  private byte[] mac(String role, byte[] message) {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(secret, "HmacSHA256"));
      mac.update(role.getBytes(StandardCharsets.US_ASCII));
      mac.update(client ? ours : theirs);
      mac.update(client ? theirs : ours);
      return mac.doFinal(message);
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException("every Java platform has HmacSHA256", e);
    }
  }
}
