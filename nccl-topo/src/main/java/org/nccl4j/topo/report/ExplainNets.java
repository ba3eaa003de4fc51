package org.nccl4j.topo.report;

import org.nccl4j.topo.PathType;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.path.Path;
import org.nccl4j.topo.path.Routes;
import org.nccl4j.topo.system.Node;

/** Explains the path of each GPU to each network, with its rule. */
final class ExplainNets {
  private static final String SECTION = "GPU to network";
  private static final String CHOICE = "Network of each GPU";

  private final Sentences sentences;
  private final Routes routes;
  private final TopoSettings settings;

  ExplainNets(Sentences sentences, Routes routes, TopoSettings settings) {
    this.sentences = sentences;
    this.routes = routes;
    this.settings = settings;
  }

  void write() {
    for (Node gpu : routes.machine().gpus()) {
      for (Node net : routes.machine().nets()) {
        sentences.say(SECTION, gpu.gpu().rank() + "-" + net.net().name(), sentence(gpu, net));
      }
      if (!routes.machine().nets().isEmpty()) {
        choice(gpu);
      }
    }
  }

  private String sentence(Node gpu, Node net) {
    Path path = routes.paths().path(gpu, net);
    if (path.type() == PathType.DIS) {
      return "no path leads there.";
    }
    String way = path.type().words() + " (" + path.type() + "), " + ReportText.gb(path.bandwidth());
    if (path.type() == PathType.PXN) {
      Node proxy = routes.gdr().proxy(path, gpu);
      return way
          + "; sent through "
          + ReportText.name(proxy)
          + ", which is nearer to the card. NCCL_PXN_DISABLE=1 turns it off.";
    }
    PathType level = routes.gdr().level();
    if (routes.gdr().allowed(gpu, net, false)) {
      boolean read = routes.gdr().allowed(gpu, net, true);
      return way
          + "; GPUDirect to receive"
          + (read ? " and to send" : ", not to send (NCCL_NET_GDR_READ=1 would)")
          + ": at most "
          + level
          + " is allowed. NCCL_NET_GDR_LEVEL changes that.";
    }
    String why =
        !net.net().gdr()
            ? "the network has none (gdr in the file)"
            : !gpu.gpu().gdr()
                ? "the GPU has none (gdr in the file)"
                : "only paths up to " + level + " are allowed";
    String remedy =
        settings.find(TopoSettings.NCCL_NET_GDR_LEVEL).isPresent()
            ? "NCCL_NET_GDR_LEVEL is set."
            : "NCCL_NET_GDR_LEVEL=SYS allows all.";
    return way + "; through host memory, without GPUDirect: " + why + ". " + remedy;
  }

  private void choice(Node gpu) {
    var nets = routes.locality().netsOf(gpu);
    sentences.say(
        CHOICE,
        ReportText.name(gpu),
        ReportText.list(nets)
            + ": widest path first, then nearest; GPUs that share networks take turns by device"
            + " number. NCCL_NETDEVS_POLICY (AUTO, ALL, MAX:n) sets how many it uses.");
  }
}
