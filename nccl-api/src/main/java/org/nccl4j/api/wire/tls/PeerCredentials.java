package org.nccl4j.api.wire.tls;

import java.io.IOException;
import java.nio.channels.SocketChannel;
import java.util.Arrays;
import java.util.Optional;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import org.nccl4j.api.wire.Handshake;

/**
 * The secret and certificates that both sides of a connection show each other.
 *
 * @param secret the communicator's
 * @param files of the certificates
 * @param tls also certificates, if present; then all bytes are encrypted
 */
public record PeerCredentials(byte[] secret, TlsFiles files, Optional<SSLContext> tls) {
  /** The secret alone. */
  public static PeerCredentials in(byte[] secret) {
    return new PeerCredentials(secret, TlsFiles.NONE, Optional.empty());
  }

  /** The secret, and certificates where there are files of them. */
  public static PeerCredentials of(byte[] secret, TlsFiles files) {
    return new PeerCredentials(secret, files, files.context());
  }

  /** The same certificates, and another secret. */
  public PeerCredentials with(byte[] other) {
    return new PeerCredentials(other, files, tls);
  }

  /** True if both ask for the same. */
  public boolean isAs(PeerCredentials other) {
    return Arrays.equals(secret, other.secret) && files.equals(other.files);
  }

  /** Begins a handshake as the side that connects. */
  public Handshake client(Handshake.Service service, byte[] request) {
    return Handshake.client(secret, service, request);
  }

  /** Begins a handshake as the side that accepts. */
  public Handshake server(Handshake.Service service) {
    return Handshake.server(secret, service);
  }

  public SocketIo wire(SocketChannel channel, boolean client) throws IOException {
    return tls.isEmpty() ? new SocketIo.Plain(channel) : wire(channel, client, /* records= */ 1);
  }

  /** The bytes of a connection with TLS, of which so many records go at once. */
  TlsIo wire(SocketChannel channel, boolean client, int records) throws IOException {
    return new TlsIo(channel, engine(client), records);
  }

  private SSLEngine engine(boolean client) {
    SSLEngine engine = tls.orElseThrow().createSSLEngine();
    engine.setUseClientMode(client);
    if (!client) {
      engine.setNeedClientAuth(true);
    }
    return engine;
  }
}
