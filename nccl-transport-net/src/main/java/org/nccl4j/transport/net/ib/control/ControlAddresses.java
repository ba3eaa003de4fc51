package org.nccl4j.transport.net.ib.control;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.wire.InterfaceFilter;
import org.nccl4j.api.wire.Interfaces;
import org.nccl4j.transport.net.ib.verbs.Gid;

/**
 * The addresses of control connections, which are TCP: the RoCE addresses themselves, which the
 * other rank has to reach anyway, then this host's interfaces, loopback last.
 */
public final class ControlAddresses {
  private static final int MOST = 4;

  private ControlAddresses() {}

  /** Addresses to be reached at, best first. */
  public static List<InetAddress> of(NetContext context, List<Gid> gids)
      throws UnknownHostException {
    Set<InetAddress> addresses = new LinkedHashSet<>();
    for (Gid gid : gids) {
      if (gid.type() == Gid.Type.ROCE_V2 && !gid.isLinkLocal()) {
        addresses.add(InetAddress.getByAddress(gid.address()));
      }
    }
    addresses.addAll(
        Interfaces.find(
                new InterfaceFilter(
                    context.get(Settings.NCCL_SOCKET_IFNAME),
                    context.get(Settings.NCCL_SOCKET_FAMILY)))
            .addresses(MOST));
    return List.copyOf(addresses);
  }
}
