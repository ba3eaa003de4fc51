package org.nccl4j.api.init.topology;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.SortedMap;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.detect.Detection;
import org.nccl4j.topo.detect.GpuFacts;
import org.nccl4j.topo.detect.HostFacts;
import org.nccl4j.topo.detect.NetFacts;
import org.nccl4j.topo.detect.NetworkScan;
import org.nccl4j.topo.detect.SysFiles;
import org.nccl4j.topo.detect.TopologyFile;
import org.nccl4j.topo.system.PciIds;
import org.nccl4j.topo.system.RankOrder;
import org.nccl4j.topo.xml.XmlElement;
import org.nccl4j.topo.xml.XmlFusion;

/**
 * The topology of this host as some ranks see it and as a topology file has it, with those ranks on
 * their GPUs, numbered from 0 on the host. It comes from a topology file with GPUs, else from the
 * kernel and the driver, beginning with a file without GPUs. The kernel's networks are added to a
 * file that has none. A file has its GPUs by bus address; for ranks on the host device it stands
 * for an absent machine, and they get its GPUs in order.
 */
final class HostTopology {
  private final Settings settings;
  private final SysFiles files;
  private final SortedMap<Integer, MachineFacts> local;
  private final HostNics nics;

  /**
   * Creates the topology of a host.
   *
   * @param files the kernel's files
   * @param local what ranks know who see the same of it, by their number on the host
   * @param nics devices of the networks
   */
  HostTopology(
      Settings settings, SysFiles files, SortedMap<Integer, MachineFacts> local, HostNics nics) {
    this.settings = settings;
    this.files = files;
    this.local = local;
    this.nics = nics;
  }

  XmlElement make(long hostHash) {
    List<GpuFacts> gpus = new ArrayList<>();
    local.forEach((rank, facts) -> facts.gpu().ifPresent(gpu -> gpus.add(gpu.withRank(rank))));
    Optional<TopologyFile> given = MachineFacts.file(settings, files, !gpus.isEmpty());
    boolean whole = given.filter(TopologyFile::isWhole).isPresent();
    if (whole && given.get().hasNets()) {
      return fromFile(given.get());
    }
    List<NetFacts> nets = new ArrayList<>();
    for (NetFacts net : NetworkScan.of(files, nics::isPreferred)) {
      nets.add(nics.reachesGpus(net) ? net.reachingGpus() : net);
    }
    if (whole) {
      HostFacts missing = new HostFacts(hostHash, List.of(), nets);
      return Detection.of(files, missing, fromFile(given.get()));
    }
    HostFacts facts = new HostFacts(hostHash, gpus, nets);
    return given
        .map(start -> Detection.of(files, facts, start.system()))
        .orElseGet(() -> Detection.of(files, facts));
  }

  private XmlElement fromFile(TopologyFile file) {
    XmlElement system = file.system();
    List<XmlElement> gpus = RankOrder.apply(system);
    Set<XmlElement> used = new HashSet<>();
    for (int rank : local.keySet()) {
      XmlElement gpu = find(file.path(), gpus, rank);
      if (!used.add(gpu)) {
        throw gpu.error("belongs to two ranks", "Give each rank its own GPU");
      }
      gpu.set("rank", rank);
      local.get(rank).gpu().ifPresent(facts -> facts.writePeers(gpu));
    }
    for (XmlElement gpu : gpus) {
      if (!used.contains(gpu)) {
        gpu.parent().parent().remove(gpu.parent());
      }
    }
    return system;
  }

  private XmlElement find(Path file, List<XmlElement> gpus, int rank) {
    Optional<GpuFacts> facts = local.get(rank).gpu();
    if (facts.isEmpty() && rank < gpus.size()) {
      return gpus.get(rank);
    }
    String wanted = facts.map(GpuFacts::busId).orElse("");
    for (XmlElement gpu : gpus) {
      String there = gpu.parent().require("busid");
      if (facts.isPresent() && PciIds.bus(there) == PciIds.bus(wanted)) {
        return gpu;
      }
    }
    throw new TopologyException(
        facts.isPresent()
            ? "the topology file %s has no GPU at %s".formatted(file, wanted)
            : "the topology file %s has %d GPUs for %d ranks of this host"
                .formatted(file, gpus.size(), local.lastKey() + 1),
        file.toString(),
        "name the file of this machine in NCCL_TOPO_FILE, or unset it");
  }

  /**
   * One machine of what is seen of it from several containers, each of which shows its own
   * networks. Elements that are equal are one. The views are not changed.
   *
   * @param files whether their networks come from files, and have numbers that others know
   */
  static XmlElement join(List<XmlElement> views, boolean files) {
    if (views.size() == 1) {
      return views.get(0);
    }
    if (files) {
      return XmlFusion.fuse(views);
    }
    List<XmlElement> unnumbered = views.stream().map(XmlElement::copy).toList();
    unnumbered.forEach(view -> nets(view).forEach(net -> net.unset("dev")));
    XmlElement union = XmlFusion.fuse(unnumbered);
    int dev = 0;
    for (XmlElement net : nets(union)) {
      net.set("dev", dev++);
    }
    return union;
  }

  private static List<XmlElement> nets(XmlElement element) {
    List<XmlElement> nets = new ArrayList<>();
    for (XmlElement child : element.children()) {
      if (child.is("net")) {
        nets.add(child);
      }
      nets.addAll(nets(child));
    }
    return nets;
  }
}
