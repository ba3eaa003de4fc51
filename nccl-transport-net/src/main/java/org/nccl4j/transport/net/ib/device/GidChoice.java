package org.nccl4j.transport.net.ib.device;

import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.transport.net.ib.verbs.Gid;

/** Chooses the address of a port. */
public final class GidChoice {
  private GidChoice() {}

  /**
   * The address that NCCL_IB_GID_INDEX names; else RoCE v2 before v1, and within that IPv4 before
   * IPv6 that is routed, before a link-local address, before loopback. On InfiniBand, the one at
   * NCCL_IB_ROUTABLE_FLID_GID_INDEX if it names a router, else the first.
   *
   * @throws InvalidArgumentException if there is none at the index
   * @throws SystemErrorException if a RoCE port has none at all
   */
  public static Gid choose(IbPort port, IbSettings settings) {
    int wantedIndex = settings.gidIndex();
    List<Gid> gids = port.gids();
    if (wantedIndex >= 0) {
      return gids.stream()
          .filter(gid -> gid.index() == wantedIndex)
          .findFirst()
          .orElseThrow(() -> noneThere(port, wantedIndex));
    }
    Optional<Gid> best =
        port.ethernet()
            ? gids.stream().min(Comparator.comparingInt(GidChoice::rank))
            : gids.stream()
                .filter(gid -> gid.index() == settings.routedGidIndex())
                .filter(gid -> Gid.flid(gid.address()) != 0)
                .findFirst()
                .or(() -> gids.stream().min(Comparator.comparingInt(Gid::index)));
    return best.orElseThrow(
        () ->
            new SystemErrorException(
                ErrorId.INFINIBAND,
                "InfiniBand: port " + port.name() + " has no GID",
                "give the network interface of this port an IP address (ip addr add), or bring it"
                    + " up (ip link set up)"));
  }

  private static int rank(Gid gid) {
    int kind = gid.type() == Gid.Type.ROCE_V2 ? 0 : 10;
    if (gid.isIpv4()) {
      return kind;
    }
    return kind + (gid.isIpv6Loopback() ? 3 : gid.isLinkLocal() ? 2 : 1);
  }

  private static InvalidArgumentException noneThere(IbPort port, int index) {
    return new InvalidArgumentException(
        ErrorId.SETTING,
        "NCCL_IB_GID_INDEX=%d, but port %s has no GID there; it has %s"
            .formatted(index, port.name(), port.gids()),
        "set NCCL_IB_GID_INDEX to one of these (RoCE v2 with an IPv4 address is the usual one), or"
            + " unset it to have one chosen");
  }
}
