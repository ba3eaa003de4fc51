package org.nccl4j.topo.connect;

import java.util.Optional;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.path.Routes;
import org.nccl4j.topo.system.Node;

/**
 * The networks, and the GPUs of other ranks (PXN), through which a rank's data leave its node.
 * Neighbours in a ring or tree use the search's choice. All others use rails: the network of the
 * GPU that has the receiver's number on its host, so that data pass no switch above the rails.
 * Immutable; safe from any thread.
 */
public final class EgressRoutes {
  private final CommGraph comm;
  private final TopoSettings settings;

  /**
   * The routes of a communicator.
   *
   * @param settings NCCL_PXN_DISABLE, NCCL_P2P_PXN_LEVEL, NCCL_PXN_C2C and NCCL_CROSS_NIC
   */
  public EgressRoutes(CommGraph comm, TopoSettings settings) {
    this.comm = comm;
    this.settings = settings;
  }

  /**
   * The network and the rank through which data leave a node.
   *
   * @param net the network
   * @param rank whose GPU's memory the network reads: the sender, or another of its node
   */
  public record Egress(Node net, int rank) {}

  /**
   * The way to a rank of another node; empty for one of the same, and by the sender's own cards.
   */
  public Optional<Egress> of(int rank, int peer) {
    NodeGraphs node = comm.shape().nodeOf(rank);
    if (node == comm.shape().nodeOf(peer)) {
      return Optional.empty();
    }
    Optional<Node> chosen = comm.egress(rank, peer);
    if (chosen.isPresent()) {
      return Optional.of(along(node, rank, chosen.get()));
    }
    return settings.peerPxnLevel() == 0 && settings.crossNic() != 0
        ? Optional.empty()
        : byRail(node, rank, peer);
  }

  /** Through another GPU where the path to the network leads through it. */
  private Egress along(NodeGraphs node, int rank, Node net) {
    Routes routes = node.graphs().routes();
    Node gpu = comm.shape().gpuOf(rank);
    Node relay = routes.gdr().proxy(routes.paths().path(gpu, net), gpu);
    return new Egress(net, node.rank(relay.gpu().rank()));
  }

  private Optional<Egress> byRail(NodeGraphs node, int rank, int peer) {
    Routes routes = node.graphs().routes();
    int number = comm.shape().gpuOf(peer).gpu().dev();
    Node gpu = comm.shape().gpuOf(rank);
    Optional<Node> alike =
        routes.machine().gpus().stream()
            .filter(one -> one.host() == gpu.host() && one.gpu().dev() == number)
            .findFirst();
    if (alike.isEmpty() || routes.machine().nets().isEmpty()) {
      return Optional.empty();
    }
    Node net = routes.locality().netOf(alike.get(), 0);
    Optional<Egress> egress = Optional.empty();
    if (settings.peerPxnLevel() == 1 && routes.paths().path(gpu, net).type().within(PathType.PXN)) {
      egress = Optional.of(along(node, rank, net));
    } else if (settings.peerPxnLevel() > 1) {
      egress = beside(routes, node, gpu, net);
    }
    boolean kept = settings.crossNic() == 0;
    return egress.isPresent() || !kept ? egress : Optional.of(new Egress(net, rank));
  }

  /** Through the GPU beside the network, if that is near enough to both. */
  private Optional<Egress> beside(Routes routes, NodeGraphs node, Node gpu, Node net) {
    Node relay = routes.locality().gpuOf(net);
    if (relay == null
        || relay == gpu
        || !routes.paths().path(relay, gpu).type().within(PathType.NVL)
        || !routes.paths().path(relay, net).type().within(settings.pxnLevel())
        || !routes.gdr().allowed(relay, net, true)) {
      return Optional.empty();
    }
    return Optional.of(new Egress(net, node.rank(relay.gpu().rank())));
  }
}
