package org.nccl4j.topo.path;

import java.util.Optional;
import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.system.Machine;
import org.nccl4j.topo.system.Node;

/**
 * Fills the path table of a machine: best paths first, then detours around forbidden paths. Each
 * pass depends on the result of earlier ones, so their order affects the result.
 */
final class PathPlanner {
  private final Machine machine;
  private final TopoSettings settings;
  private final PathTable paths;
  private final PeerRules peers;
  private final GdrRules gdr;
  private final Locality locality;

  PathPlanner(Machine machine, TopoSettings settings, PeerStatus driver) {
    this.machine = machine;
    this.settings = settings;
    this.paths = new PathTable(machine);
    this.peers = new PeerRules(paths, settings, driver);
    this.gdr = new GdrRules(paths, settings);
    this.locality = new Locality(paths, settings);
  }

  Routes plan() {
    findAll();
    machine.gpus().forEach(this::detourPeers);
    machine.gpus().forEach(this::useC2cToLocalNets);
    for (Node net : machine.nets()) {
      for (Node gpu : machine.gpus()) {
        relayThroughPeer(gpu, net);
        detourWithoutGdr(gpu, net);
      }
    }
    return new Routes(paths, peers, gdr, locality);
  }

  private void findAll() {
    PathFinder finder = new PathFinder(machine, !settings.nvbDisabled());
    for (NodeType type :
        new NodeType[] {NodeType.CPU, NodeType.DEV, NodeType.GPU, NodeType.NET, NodeType.NVS}) {
      for (Node target : machine.nodes(type)) {
        Optional<Node> first = earlier(target);
        if (first.isPresent()) {
          paths.fill(first.get(), finder.pathsTo(target, paths.to(first.get())));
        } else {
          paths.fill(target, finder.pathsTo(target));
        }
      }
    }
  }

  /** A network that a file names on several cards is one device: paths lead to the nearest. */
  private Optional<Node> earlier(Node target) {
    return machine.nodes(target.type()).stream()
        .limit(target.index())
        .filter(node -> node.host() == target.host() && node.id() == target.id())
        .findFirst();
  }

  /** Leads peers that may not access each other through the CPU; marks those without any way. */
  private void detourPeers(Node gpu) {
    for (Node peer : machine.gpus()) {
      if (!peers.find(peer, gpu)) {
        detour(peer, locality.cpuOf(gpu), gpu);
      }
    }
    for (Node peer : machine.gpus()) {
      if (peer != gpu && !peers.connected(peer, gpu)) {
        paths.set(peer, gpu, paths.path(peer, gpu).withType(PathType.NET));
      }
    }
  }

  /** A GPU with C2C reaches its nearest networks over the CPU as well as over PCIe. */
  private void useC2cToLocalNets(Node gpu) {
    Node cpu = locality.cpuOf(gpu);
    for (Node net : locality.nearest(gpu, NodeType.NET).nodes()) {
      PathType type = joined(paths.path(gpu, cpu).type(), paths.path(net, cpu).type());
      if (type == PathType.P2C) {
        Path there = paths.path(gpu, net);
        paths.set(gpu, net, there.withType(there.type().min(PathType.P2C)));
        Path back = paths.path(net, gpu);
        paths.set(net, gpu, back.withType(back.type().min(PathType.P2C)));
      }
    }
  }

  /** PXN: over NVLink to the GPU beside the card. Only to send; receiving stays local. */
  private void relayThroughPeer(Node gpu, Node net) {
    if (settings.pxnDisabled()) {
      return;
    }
    Node relay = locality.gpuOf(net);
    if (relay == null || relay == gpu) {
      return;
    }
    Path direct = paths.path(gpu, net);
    Path last = paths.path(relay, net);
    boolean usable =
        last.type().within(settings.pxnLevel())
            && gdr.allowed(relay, net, true)
            && paths.path(relay, gpu).type().within(PathType.NVL)
            && relay.host() == gpu.host();
    boolean better = last.bandwidth() > direct.bandwidth() || !direct.type().within(PathType.PXN);
    if (usable && better) {
      paths.set(gpu, net, paths.path(gpu, relay).then(last, PathType.PXN));
    }
  }

  private void detourWithoutGdr(Node gpu, Node net) {
    if (PathType.PHB.within(paths.path(gpu, net).type()) || gdr.allowed(gpu, net, false)) {
      return;
    }
    Node cpu = locality.cpuOf(gpu);
    detour(net, cpu, gpu);
    detour(gpu, cpu, net);
  }

  private void detour(Node from, Node cpu, Node to) {
    Path first = paths.path(from, cpu);
    Path second = paths.path(cpu, to);
    paths.set(from, to, first.then(second, joined(first.type(), second.type())));
  }

  private static PathType joined(PathType a, PathType b) {
    boolean c2cThenPci = a.max(b) == PathType.PHB && a.min(b) == PathType.C2C;
    return c2cThenPci ? PathType.P2C : a.max(b);
  }
}
