package org.nccl4j.api.wire.tls;

import java.io.IOException;
import java.nio.channels.ByteChannel;
import java.nio.channels.SocketChannel;
import org.nccl4j.api.wire.DataChannel;

/**
 * TLS for the connections of networks, with the same rules as the bootstrap's: both sides show a
 * certificate. Any thread.
 */
public final class NetworkTls {
  /** Records of 16 KiB that a connection with data reads and writes in one system call. */
  private static final int DATA_RECORDS = 4;

  private final PeerCredentials trust;

  private NetworkTls(PeerCredentials trust) {
    this.trust = trust;
  }

  /**
   * Returns the TLS of certificates in files; no TLS where there are no files.
   *
   * @throws org.nccl4j.device.InvalidArgumentException naming the file that cannot be used, why,
   *     and the remedy
   */
  public static NetworkTls of(TlsFiles files) {
    return new NetworkTls(new PeerCredentials(new byte[0], files, files.context()));
  }

  /** True if there are no certificates, so that nothing is encrypted. */
  public boolean isOff() {
    return trust.tls().isEmpty();
  }

  /**
   * The bytes of a connection of control messages: the channel itself where there is no TLS.
   *
   * @param connected in non-blocking mode; only the result reads and writes it from now on
   * @param dialed whether this side opened it
   */
  public ByteChannel control(SocketChannel connected, boolean dialed) throws IOException {
    return trust.tls().isEmpty()
        ? connected
        : new TlsDataChannel(connected, trust.wire(connected, dialed, /* records= */ 1));
  }

  /**
   * The bytes of a connection that carries data.
   *
   * @param connected in non-blocking mode; only the result reads and writes it from now on
   * @param dialed whether this side opened it
   */
  public DataChannel data(SocketChannel connected, boolean dialed) throws IOException {
    return trust.tls().isEmpty()
        ? DataChannel.plain(connected)
        : new TlsDataChannel(connected, trust.wire(connected, dialed, DATA_RECORDS));
  }
}
