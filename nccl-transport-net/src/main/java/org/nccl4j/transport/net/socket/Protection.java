package org.nccl4j.transport.net.socket;

import java.util.Optional;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.settings.TlsSettings;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.spi.Setting;
import org.nccl4j.api.wire.DataChannel;
import org.nccl4j.api.wire.PendingHandshake;
import org.nccl4j.api.wire.tls.NetworkTls;
import org.nccl4j.api.wire.tls.TlsFiles;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;

/**
 * The protection of a communicator's sockets. All ranks have the same.
 *
 * @param secret that both ends of each socket prove to know
 * @param sums whether each message carries a checksum
 * @param encrypted whether all bytes go by TLS
 * @param tls of the certificates that are set
 */
record Protection(byte[] secret, boolean sums, boolean encrypted, NetworkTls tls) {
  static Protection of(NetContext context) {
    TlsFiles files = TlsSettings.files(context);
    return new Protection(
        context.secret(),
        context.get(Settings.NCCL4J_NET_CHECKSUM).equals("crc32c"),
        !files.isNone() && context.get(TlsSettings.NCCL4J_NET_TLS),
        NetworkTls.of(files));
  }

  /**
   * Returns the bytes of sockets.
   *
   * @param byTls whether they are encrypted, as far as there are certificates
   * @param dialed whether this side opened them
   */
  PendingHandshake.Channels channels(boolean byTls, boolean dialed) {
    return byTls ? socket -> tls.data(socket, dialed) : DataChannel::plain;
  }

  /** Returns the bytes of a socket that {@link #channels} has begun. */
  static DataChannel bytes(PendingHandshake proved) {
    return (DataChannel) proved.channel();
  }

  /**
   * Returns the error of two ends that differ, if they do.
   *
   * @param where the other end is
   */
  Optional<InvalidUsageException> differs(boolean theirSums, boolean theirEncrypted, String where) {
    if (encrypted != theirEncrypted) {
      return Optional.of(
          differs(TlsSettings.NCCL4J_NET_TLS, on(encrypted), on(theirEncrypted), where));
    }
    return sums == theirSums
        ? Optional.empty()
        : Optional.of(
            differs(Settings.NCCL4J_NET_CHECKSUM, sumsOf(sums), sumsOf(theirSums), where));
  }

  private static String on(boolean encrypted) {
    return encrypted ? "1 with certificates" : "0 or without certificates";
  }

  private static String sumsOf(boolean sums) {
    return sums ? "crc32c" : "none";
  }

  private static InvalidUsageException differs(
      Setting<?> setting, String here, String there, String where) {
    return new InvalidUsageException(
        ErrorId.SETTINGS_DIFFER,
        "%s is %s on this rank, and %s on the rank at %s"
            .formatted(setting.name(), here, there, where),
        "set %s to the same value on all ranks%s"
            .formatted(
                setting.name(),
                setting == TlsSettings.NCCL4J_NET_TLS
                    ? ", and NCCL4J_TLS_CERT, NCCL4J_TLS_KEY and NCCL4J_TLS_CA on all or on none"
                    : ""));
  }
}
