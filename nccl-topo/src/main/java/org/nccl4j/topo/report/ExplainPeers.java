package org.nccl4j.topo.report;

import java.util.List;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.path.Path;
import org.nccl4j.topo.path.PeerRules;
import org.nccl4j.topo.path.Routes;
import org.nccl4j.topo.system.Node;

/** Explains the path between each pair of GPUs, with its rule. */
final class ExplainPeers {
  private static final String SECTION = "GPU to GPU";

  private final Sentences sentences;
  private final Routes routes;
  private final TopoSettings settings;

  ExplainPeers(Sentences sentences, Routes routes, TopoSettings settings) {
    this.sentences = sentences;
    this.routes = routes;
    this.settings = settings;
  }

  void write() {
    List<Node> gpus = routes.machine().gpus();
    for (Node gpu : gpus) {
      for (Node peer : gpus) {
        if (gpu.gpu().rank() < peer.gpu().rank()) {
          sentences.say(SECTION, gpu.gpu().rank() + "-" + peer.gpu().rank(), sentence(gpu, peer));
        }
      }
    }
  }

  private String sentence(Node gpu, Node peer) {
    Path path = routes.paths().path(gpu, peer);
    String way = path.type().words() + " (" + path.type() + "), " + ReportText.gb(path.bandwidth());
    PeerRules.Answer answer = routes.peers().check(gpu, peer);
    PathType level = routes.peers().level();
    String rule =
        settings.p2pLevel().isPresent()
            ? "as NCCL_P2P_LEVEL or NCCL_P2P_DISABLE says"
            : "by default";
    if (path.type() == PathType.NET) {
      return way
          + "; no peer access and no shared memory, or both reach a network faster: transport"
          + " NET. NCCL_NET_DISABLE_INTRA=1 keeps them off the network.";
    }
    if (answer.direct()) {
      return way
          + answer.through().map(node -> ", through " + ReportText.name(node)).orElse("")
          + "; transport P2P, "
          + (answer.read() ? "the receiver reads" : "the sender writes")
          + ": at most "
          + level
          + " is allowed "
          + rule
          + ". A nearer NCCL_P2P_LEVEL or NCCL_P2P_DISABLE=1 turns it off"
          + (path.type() == PathType.NVB ? ", NCCL_NVB_DISABLE=1 avoids the GPU in between." : ".");
    }
    String why =
        path.type().within(level)
            ? "the driver does not allow peer access"
            : "only paths up to " + level + " are allowed " + rule;
    return way
        + "; transport SHM through memory of the nearest CPU: "
        + why
        + ". NCCL_P2P_LEVEL="
        + (path.type().within(PathType.SYS) ? path.type() : PathType.SYS)
        + " would allow peer access.";
  }
}
