package org.nccl4j.api.init.topology;

import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.nccl4j.api.plan.cost.ChannelBandwidth;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.Support;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.cluster.CommTopology;
import org.nccl4j.topo.connect.CommShape;
import org.nccl4j.topo.path.Routes;
import org.nccl4j.topo.system.Node;
import org.nccl4j.topo.system.NodeAttributes;

/**
 * Distances from a rank's GPU to the NICs of its machine, and what these need.
 *
 * @param routes of the machine
 * @param gpu the rank's
 * @param channels that use all of the machines' NICs; 0 on one machine, or where that is not known
 * @param ranks on all machines
 */
public record NetDistances(Routes routes, Node gpu, int channels, CommShape ranks) {
  /** Distances of an unknown machine. */
  public static final NetDistances UNKNOWN = new NetDistances(null, null, 0, null);

  /** Returns the distances of a rank on one of the machines that were searched. */
  public static NetDistances of(Optional<CommTopology> topology, int rank) {
    if (topology.isEmpty()) {
      return UNKNOWN;
    }
    var node = topology.get().nodeOf(rank);
    Routes routes = node.graphs().routes();
    for (Node gpu : routes.machine().gpus()) {
      if (node.rank(gpu.gpu().rank()) == rank) {
        return new NetDistances(
            routes, gpu, ChannelBandwidth.channels(topology.get()), topology.get().comm().shape());
      }
    }
    return UNKNOWN;
  }

  /** Returns whether a card may access the GPU's memory, with the path that decides it. */
  public Support directAccess(NetDevice card, boolean reads) {
    if (routes == null) {
      return Support.no("the machine's topology is not known");
    }
    Support found = Support.no("the machine's topology does not have it");
    for (Node net : routes.machine().nets()) {
      if (net.host() == gpu.host() && isOf(net.net(), card)) {
        found = directAccess(net, reads);
        if (!found.possible()) {
          return found; // the data go over all ports of a merged card
        }
      }
    }
    return found;
  }

  private Support directAccess(Node net, boolean reads) {
    PathType there = routes.paths().path(gpu, net).type();
    // With PXN data leave from another GPU's memory. This GPU's own path is the card's path to it.
    boolean relayed = there == PathType.PXN;
    PathType path = relayed ? routes.paths().path(net, gpu).type() : there;
    boolean near = !relayed || path.within(routes.gdr().level());
    if (near && routes.gdr().allowed(gpu, net, reads)) {
      return Support.yes("the path is " + path);
    }
    if (!net.net().gdr() || !gpu.gpu().gdr()) {
      return Support.no("the topology says that one of them cannot (gdr)");
    }
    // Without direct access the path goes through the processor, however near the card is.
    PathType level = routes.gdr().level();
    return Support.no(
        !path.within(level)
            ? "the NIC is farther than NCCL_NET_GDR_LEVEL allows (%s)".formatted(level)
            : reads && routes.gdr().allowed(gpu, net, false)
                ? "NICs read this GPU's memory slowly; NCCL_NET_GDR_READ=1 allows it"
                : "the GPU is a partition; NCCL_NET_GDR_MLOPART=1 allows it");
  }

  private static boolean isOf(NodeAttributes.Net net, NetDevice card) {
    return card.includes(net.name()) || card.includes(net.name() + ":" + net.port());
  }

  /** Returns the nearest cards, with the names of InfiniBand cards and of interfaces. */
  public List<TransportContext.NearNet> nearest() {
    return routes == null
        ? List.of()
        : nearest(routes, gpu)
            .map(net -> new TransportContext.NearNet(names(net), net.net().bandwidth()))
            .toList();
  }

  private static Stream<Node> nearest(Routes routes, Node gpu) {
    return routes.machine().nets().isEmpty()
        ? Stream.of()
        : routes.locality().netsOf(gpu).stream().filter(net -> net.host() == gpu.host());
  }

  /** Returns whether two ranks' GPUs have as many nearest cards, of the same speeds in order. */
  public boolean haveNetsAlike(int one, int other) {
    return routes != null && speeds(one).equals(speeds(other));
  }

  private List<Float> speeds(int rank) {
    return nearest(rank).map(net -> net.net().bandwidth()).toList();
  }

  /** Returns whether a card is one of the nearest of a rank's GPU. */
  public boolean isNearest(int rank, Node net) {
    return routes != null && nearest(rank).anyMatch(net::equals);
  }

  private Stream<Node> nearest(int rank) {
    return nearest(ranks.nodeOf(rank).graphs().routes(), ranks.gpuOf(rank));
  }

  /** Returns the names that networks may have for a card. */
  public static List<String> names(Node net) {
    return List.of(net.net().name() + ":" + net.net().port(), net.net().name());
  }
}
