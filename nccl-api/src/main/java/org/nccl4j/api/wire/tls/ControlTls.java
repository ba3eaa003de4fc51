package org.nccl4j.api.wire.tls;

import java.io.IOException;
import java.nio.channels.ByteChannel;
import java.nio.channels.SocketChannel;

/**
 * The connections that networks open beside their data, by the same TLS as the bootstrap's: both
 * sides show a certificate. Any thread.
 */
public final class ControlTls {
  private final PeerCredentials trust;

  private ControlTls(PeerCredentials trust) {
    this.trust = trust;
  }

  /**
   * Returns the TLS of certificates in files; no TLS where there are no files.
   *
   * @throws org.nccl4j.device.InvalidArgumentException naming the file that cannot be used, why,
   *     and the remedy
   */
  public static ControlTls of(TlsFiles files) {
    return new ControlTls(new PeerCredentials(new byte[0], files, files.context()));
  }

  /**
   * A connection's bytes: the channel itself where there is no TLS.
   *
   * @param connected in non-blocking mode, which nobody else reads or writes from now on
   * @param dialed whether this side opened it
   */
  public ByteChannel over(SocketChannel connected, boolean dialed) throws IOException {
    return trust.tls().isEmpty()
        ? connected
        : new SocketIoChannel(connected, trust.wire(connected, dialed));
  }
}
