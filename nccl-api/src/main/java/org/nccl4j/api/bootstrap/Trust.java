package org.nccl4j.api.bootstrap;

import java.io.IOException;
import java.nio.channels.SocketChannel;
import java.util.Arrays;
import java.util.Optional;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import org.nccl4j.api.wire.Handshake;

/**
 * The credentials that the sides of a connection must show each other.
 *
 * @param secret the communicator's
 * @param files where the certificates are
 * @param tls certificates too, where it is present; then all bytes are encrypted
 */
record Trust(byte[] secret, TlsFiles files, Optional<SSLContext> tls) {
  /** The secret alone. */
  static Trust in(byte[] secret) {
    return new Trust(secret, TlsFiles.NONE, Optional.empty());
  }

  /** The secret, and what the settings say. */
  static Trust of(byte[] secret, BootstrapOptions options) {
    return new Trust(secret, options.tls(), options.tls().context());
  }

  /** The same certificates, and another secret. */
  Trust with(byte[] other) {
    return new Trust(other, files, tls);
  }

  /** Whether both ask for the same. */
  boolean isAs(Trust other) {
    return Arrays.equals(secret, other.secret) && files.equals(other.files);
  }

  Handshake handshake(Handshake.Service service, boolean client) {
    return client ? Handshake.client(secret, service) : Handshake.server(secret, service);
  }

  Wire wire(SocketChannel channel, boolean client) throws IOException {
    if (tls.isEmpty()) {
      return new Wire.Plain(channel);
    }
    SSLEngine engine = tls.get().createSSLEngine();
    engine.setUseClientMode(client);
    if (!client) {
      engine.setNeedClientAuth(true);
    }
    return new TlsWire(channel, engine);
  }
}
