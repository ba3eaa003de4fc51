package org.nccl4j.topo.detect;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.xml.XmlElement;

/**
 * Fuses several near ports or cards into one network, for a plug-in that can send over all of them
 * as one, as NCCL's InfiniBand can. By default ports of one card are fused; NCCL_NET_MERGE_LEVEL is
 * the greatest distance (LOC for none), NCCL_NET_FORCE_MERGE names groups ({@code
 * mlx5_0,mlx5_1;mlx5_2,mlx5_3}), NCCL_NET_MERGE_POLICY=RAIL fuses only within a rail.
 */
public final class NicFusion {
  private static final int MAX_PORTS = 8;

  /**
   * Path type of two ports of one card in NCCL_NET_MERGE_LEVEL: the first step after the port
   * itself.
   */
  private static final PathType PORT = PathType.NVL;

  private final XmlElement system;
  private final TopoSettings settings;
  private final List<XmlElement> nets = new ArrayList<>();
  private final Set<XmlElement> placed = new HashSet<>();
  private int nextDev;

  private NicFusion(XmlElement system, TopoSettings settings) {
    this.system = system;
    this.settings = settings;
    collect(system);
    nets.sort(Comparator.comparingInt(net -> net.requireInt("dev")));
    nextDev = nets.stream().mapToInt(net -> net.requireInt("dev") + 1).max().orElse(0);
  }

  /**
   * Returns a copy of a topology with its networks fused; fused ports are removed.
   *
   * @throws TopologyException if NCCL_NET_FORCE_MERGE names what is not there, or cards of
   *     different NUMA nodes
   */
  public static XmlElement fuse(XmlElement system, TopoSettings settings) {
    NicFusion fusion = new NicFusion(system.copy(), settings);
    fusion.forced();
    fusion.automatic();
    return fusion.system;
  }

  private void collect(XmlElement element) {
    if (element.is("net") && element.text("dev").isPresent() && element.intOr("net", 1) != 0) {
      nets.add(element);
    }
    element.children().forEach(this::collect);
  }

  private void forced() {
    for (String group : settings.get(TopoSettings.NCCL_NET_FORCE_MERGE).split(";")) {
      if (group.isBlank()) {
        continue;
      }
      List<String> names = List.of(group.strip().split(","));
      List<XmlElement> ports = nets.stream().filter(net -> isNamed(net, names)).toList();
      if (ports.size() != names.size() || ports.size() > MAX_PORTS) {
        throw new TopologyException(
            "networks cannot be fused",
            "NCCL_NET_FORCE_MERGE=" + group,
            ports.size() + " networks have these " + names.size() + " names",
            "name existing networks, each once and at most " + MAX_PORTS + " in a group");
      }
      ports.forEach(NicDistance::pciOf);
      placed.addAll(ports);
      merge(ports);
    }
  }

  private static boolean isNamed(XmlElement net, List<String> names) {
    String name = net.text("name").orElse("");
    return names.contains(name) || names.contains(name + ":" + net.intOr("port", 0));
  }

  private void automatic() {
    PathType level = level();
    boolean rails = settings.get(TopoSettings.NCCL_NET_MERGE_POLICY).equals("RAIL");
    for (XmlElement first : List.copyOf(nets)) {
      if (!NicDistance.isCard(first) || !placed.add(first)) {
        continue;
      }
      List<XmlElement> ports = new ArrayList<>(List.of(first));
      for (XmlElement other : nets) {
        boolean sameRail =
            first.intOr("rail", -1) >= 0 && first.intOr("rail", -1) == other.intOr("rail", -1);
        if (ports.size() < MAX_PORTS
            && NicDistance.isCard(other)
            && !placed.contains(other)
            && (!rails || sameRail)
            && NicDistance.of(List.of(first, other)).type().within(level)) {
          ports.add(other);
          placed.add(other);
        }
      }
      merge(ports);
    }
  }

  private PathType level() {
    String text = settings.get(TopoSettings.NCCL_NET_MERGE_LEVEL);
    return text.equals("PORT") ? PORT : PathType.named(text).orElse(PathType.LOC);
  }

  private void merge(List<XmlElement> ports) {
    if (ports.size() < 2) {
      return;
    }
    XmlElement parent = parent(ports);
    XmlElement nic = parent.child("nic").orElseGet(() -> parent.add(XmlElement.of("nic")));
    XmlElement first = ports.get(0);
    XmlElement fused = nic.add(XmlElement.of("net"));
    first.attributes().forEach(fused::set);
    fused.set("name", String.join("+", ports.stream().map(port -> port.require("name")).toList()));
    fused.set("dev", nextDev++);
    fused.set("speed", ports.stream().mapToInt(port -> port.intOr("speed", 0)).sum());
    fused.unset("plane");
    if (ports.stream().anyMatch(port -> port.intOr("rail", -1) != first.intOr("rail", -1))) {
      fused.unset("rail");
    }
    ports.forEach(NicFusion::remove);
  }

  /** Returns the parent of the fused network: the ports' common card, or one made for them. */
  private XmlElement parent(List<XmlElement> ports) {
    NicDistance distance = NicDistance.of(ports);
    XmlElement common = distance.common();
    if (common.is("system")) {
      throw new TopologyException(
          "networks cannot be fused",
          ports.get(0).require("name") + " and " + ports.get(1).require("name"),
          "they are at different NUMA nodes",
          "set NCCL_NET_MERGE_LEVEL to PHB or less, or name others in NCCL_NET_FORCE_MERGE");
    }
    boolean bridge = common.text("class").map("0x060400"::equals).orElse(false);
    if (!bridge && !common.is("cpu")) {
      return common;
    }
    XmlElement card = madeUp(ports.get(0));
    if (distance.addsUp()) {
      card.set("link_width", distance.width());
      if (common.is("pci")) {
        common.set("link_width", distance.width());
      }
    }
    return common.add(card);
  }

  private XmlElement madeUp(XmlElement port) {
    XmlElement like = NicDistance.pciOf(port);
    XmlElement card = XmlElement.of("pci");
    like.attributes().forEach(card::set);
    String busId = like.require("busid");
    int cut = busId.lastIndexOf('.');
    for (int function = 1; cut > 0 && function < 16; function++) {
      String free = busId.substring(0, cut + 1) + Integer.toHexString(function);
      if (!hasBus(system, free)) {
        return card.set("busid", free);
      }
    }
    throw like.error("leaves no free address for a fused network", "write busid as 0000:1b:00.0");
  }

  private static boolean hasBus(XmlElement element, String busId) {
    return element
            .text("busid")
            .map(text -> text.toLowerCase(Locale.ROOT).equals(busId))
            .orElse(false)
        || element.children().stream().anyMatch(child -> hasBus(child, busId));
  }

  /** Takes a network out, and what is above it if nothing else is there. */
  private static void remove(XmlElement net) {
    XmlElement element = net;
    while (!element.is("system") && !element.is("cpu") && element.children().isEmpty()) {
      XmlElement parent = element.parent();
      parent.remove(element);
      element = parent;
    }
  }
}
