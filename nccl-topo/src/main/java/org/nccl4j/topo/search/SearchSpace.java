package org.nccl4j.topo.search;

import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.topo.LinkType;
import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.path.Path;
import org.nccl4j.topo.path.Routes;
import org.nccl4j.topo.system.Bandwidths;
import org.nccl4j.topo.system.Link;
import org.nccl4j.topo.system.Machine;
import org.nccl4j.topo.system.Node;

/**
 * The shared state of all searches of one machine: its routes, the remaining bandwidth of its
 * links, and the greatest speed of a channel. Owned by the thread that searches.
 */
final class SearchSpace {
  final Machine machine;
  final Routes routes;
  final TopoSettings settings;
  final Capacity capacity;
  final NetChoice nets;
  final List<Node> gpus;
  final Node[] localGpu;

  /** True if there are ranks beyond this machine, so that channels lead to networks. */
  final boolean inter;

  final float maxBandwidth;
  final float totalBandwidth;

  SearchSpace(Routes routes, TopoSettings settings, boolean inter) {
    this.machine = routes.machine();
    this.routes = routes;
    this.settings = settings;
    this.inter = inter;
    this.capacity = new Capacity(machine);
    this.gpus = machine.gpus();
    this.nets = new NetChoice(routes, settings);
    this.localGpu = machine.nets().stream().map(routes.locality()::gpuOf).toArray(Node[]::new);
    boolean alone = !inter && gpus.size() == 1;
    this.maxBandwidth = alone ? Bandwidths.LOCAL : widestPath();
    this.totalBandwidth = alone ? Bandwidths.LOCAL : mostPerDevice();
  }

  Path path(Node from, Node to) {
    return routes.paths().path(from, to);
  }

  private float widestPath() {
    float widest = 0;
    for (Node device : machine.devices()) {
      for (Node to : machine.nodes(inter ? NodeType.NET : NodeType.DEV)) {
        Path path = path(device, to);
        widest = path.hops() == 0 ? widest : Math.max(widest, path.bandwidth());
      }
    }
    return widest;
  }

  private float mostPerDevice() {
    float most = 0;
    for (Node device : machine.devices()) {
      float nvLink = 0;
      float pci = 0;
      for (Link link : device.links()) {
        nvLink += link.type() == LinkType.NVL ? link.bandwidth() : 0;
        pci = link.type() == LinkType.PCI ? link.bandwidth() : pci;
      }
      most = Math.max(most, Math.max(pci, nvLink));
    }
    return most;
  }

  /** True if NVLink makes two groups of GPUs with something slower in between. */
  boolean nvLinkIsSplit() {
    int[] group = new int[gpus.size()];
    Arrays.setAll(group, g -> g);
    for (int g = 0; g < group.length; g++) {
      for (int p = g + 1; p < group.length; p++) {
        if (path(gpus.get(g), gpus.get(p)).type() == PathType.NVL) {
          group[p] = group[g];
        }
      }
    }
    Map<Integer, Integer> sizes = new HashMap<>();
    Arrays.stream(group).forEach(id -> sizes.merge(id, 1, Integer::sum));
    return sizes.values().stream().filter(size -> size > 1).count() == 2;
  }
}
