package org.nccl4j.api.init.connect;

import java.lang.System.Logger;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.init.peers.InitRequest;
import org.nccl4j.api.settings.GpuSettings;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.Device;

/**
 * Tested connections: pairs of GPUs that cannot open each other's memory, or between which data
 * arrive changed, use the next transport that reaches both.
 *
 * @param links to all ranks but the late ones
 * @param routes the transports that they are by
 * @param late ranks that are connected when an operation first needs them
 */
public record VerifiedConnections(
    ConnectionSetup links, List<TransportRoutes.NamedTransport> routes, Set<Integer> late) {
  private static final Logger LOG = DebugLog.of("INIT");

  /**
   * Chooses, connects and tries; all ranks take part.
   *
   * @param neighbours this rank's in rings and trees, which are connected first: networks may have
   *     more for the first connections than for others
   * @param late ranks with which this one is connected later, if they are reached over a network
   * @throws org.nccl4j.device.NcclException if no transport connects a pair, with what each said
   */
  public static VerifiedConnections of(
      InitRequest request,
      TransportRoutes choice,
      List<PeerInfo> peers,
      Set<Integer> neighbours,
      Set<Integer> late,
      Bootstrap bootstrap) {
    int rank = bootstrap.rank();
    List<TransportRoutes.NamedTransport> routes = choice.choose(bootstrap);
    Set<Integer> later = overNetworks(late, routes);
    Set<Integer> now = order(rank, peers.size(), neighbours);
    now.removeAll(later);
    ConnectionSetup links =
        ConnectionSetup.connect(
            now, peers, routes, choice.transports(), bootstrap, bootstrap.exchangeEnd());
    boolean gpus = peers.stream().allMatch(peer -> peer.deviceKind() == Device.Kind.CUDA);
    if (!gpus || peers.size() == 1 || !request.settings().get(GpuSettings.NCCL4J_P2P_CHECK)) {
      links.checkRefused(bootstrap);
      return new VerifiedConnections(links, routes, later);
    }
    P2pDataCheck check = new P2pDataCheck(request.device(), peers, rank, bootstrap);
    Map<Integer, P2pDataCheck.Complaint> complaints = check.complaints(links);
    while (complaints != null) {
      List<TransportRoutes.NamedTransport> before = routes;
      complaints.forEach((peer, why) -> choice.exclude(peer, before.get(peer), why.problem()));
      routes = choice.choose(bootstrap);
      tell(peers.get(rank), peers, complaints, before, routes);
      links.connectWith(
          complaints.keySet(),
          peers,
          routes,
          choice.transports(),
          bootstrap,
          bootstrap.exchangeEnd());
      complaints = check.complaints(links);
    }
    return new VerifiedConnections(links, routes, later);
  }

  /** The other ranks: neighbours, then the others, those with near numbers first. */
  static Set<Integer> order(int rank, int nRanks, Set<Integer> neighbours) {
    Set<Integer> order = new LinkedHashSet<>(neighbours);
    for (int distance = 1; distance <= nRanks / 2; distance++) {
      order.add((rank + distance) % nRanks);
      order.add((rank + nRanks - distance) % nRanks);
    }
    return order;
  }

  private static Set<Integer> overNetworks(
      Set<Integer> late, List<TransportRoutes.NamedTransport> routes) {
    return late.stream()
        .filter(peer -> routes.get(peer).provider().crossesHosts())
        .collect(Collectors.toUnmodifiableSet());
  }

  private static final String BEHIND_IOMMU =
      "An IOMMU or PCI access control (ACS) between the GPUs does this; switch it off, or set"
          + " NCCL_P2P_DISABLE=1 where it must stay on";

  private static final String NO_ACCESS =
      "GPUs without peer access and instances of one GPU (MIG) do this, and containers that do"
          + " not share the host's IPC namespace (--ipc=host); NCCL_P2P_DISABLE=1 uses the"
          + " other transport without this test";

  private static final String BETWEEN_HOSTS =
      "Check the NVLink fabric and the IMEX daemons of their hosts (nvidia-imex-ctl -N), or set"
          + " NCCL_MNNVL_ENABLE=0";

  private static void tell(
      PeerInfo self,
      List<PeerInfo> peers,
      Map<Integer, P2pDataCheck.Complaint> complaints,
      List<TransportRoutes.NamedTransport> before,
      List<TransportRoutes.NamedTransport> after) {
    complaints.forEach(
        (peer, why) -> {
          if (self.rank() < peer) {
            LOG.log(
                Logger.Level.WARNING,
                "ranks {0} and {1} cannot use {2} and use {3} instead, which is slower: on rank"
                    + " {0} {4}. {5}",
                self.rank(),
                peer,
                before.get(peer).name(),
                after.get(peer).name(),
                why.problem(),
                !self.sharesHost(peers.get(peer))
                    ? BETWEEN_HOSTS
                    : why.refused() ? NO_ACCESS : BEHIND_IOMMU);
          }
        });
  }
}
