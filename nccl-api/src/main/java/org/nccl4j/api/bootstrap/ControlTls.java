package org.nccl4j.api.bootstrap;

import java.io.IOException;
import java.nio.channels.ByteChannel;
import java.nio.channels.SocketChannel;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.InvalidArgumentException;

/**
 * The connections that networks open beside their data, by the same TLS as the bootstrap's: both
 * sides show a certificate. Any thread.
 */
public final class ControlTls {
  private final Trust trust;

  private ControlTls(Trust trust) {
    this.trust = trust;
  }

  /**
   * By the files that the settings name; without TLS where they name none.
   *
   * @throws InvalidArgumentException naming the file that cannot be used, why, and the remedy
   */
  public static ControlTls of(Settings settings) {
    TlsFiles files = TlsFiles.from(settings);
    return new ControlTls(new Trust(new byte[0], files, files.context()));
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
        : new WireChannel(connected, trust.wire(connected, dialed));
  }
}
