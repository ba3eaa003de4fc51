package org.nccl4j.transport.net;

import java.lang.System.Logger;
import java.util.HashSet;
import java.util.Set;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.settings.TlsSettings;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.DebugLog;

/**
 * Warns of settings that ask to protect data and have no effect on a network that is used: of
 * encryption and of checksums. The lowest rank that has the network warns, once for each.
 */
final class NetProtection {
  private static final Logger LOG = DebugLog.of("NET");

  private final TransportContext context;
  private final Set<String> checked = new HashSet<>();

  NetProtection(TransportContext context) {
    this.context = context;
  }

  /** Warns, once, if a network that a connection uses leaves data unprotected. */
  void check(String name, Net net) {
    if (checked.add(name) && isLowest(name)) {
      net.unprotected().ifPresent(why -> warn(name, why));
    }
  }

  private boolean isLowest(String name) {
    return context.peers().stream()
        .noneMatch(peer -> peer.rank() < context.rank() && peer.nets().contains(name));
  }

  private void warn(String name, String why) {
    if (!TlsSettings.files(context).isNone() && context.get(TlsSettings.NCCL4J_NET_TLS)) {
      LOG.log(
          Logger.Level.WARNING,
          "{0} is set, but data between ranks go in clear over network {1}: {2}. Set"
              + " NCCL_NET=Socket on all ranks to encrypt them, or {3}=0 to send them in clear without"
              + " this warning",
          TlsSettings.NCCL4J_TLS_CERT.name(),
          name,
          why,
          TlsSettings.NCCL4J_NET_TLS.name());
    }
    String checksum = context.get(Settings.NCCL4J_NET_CHECKSUM);
    if (!checksum.equals("none")) {
      LOG.log(
          Logger.Level.WARNING,
          "{0}={1} has no effect on data over network {2}: {3}. Set NCCL_NET=Socket on all ranks to"
              + " check them, or unset {0}",
          Settings.NCCL4J_NET_CHECKSUM.name(),
          checksum,
          name,
          why);
    }
  }
}
