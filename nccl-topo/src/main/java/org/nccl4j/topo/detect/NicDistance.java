package org.nccl4j.topo.detect;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.xml.XmlElement;

/**
 * The distance of networks in a topology file, and their common element.
 *
 * @param type LOC for one network, NVL for ports of one card, then PIX, PXB, PHB, SYS
 * @param common the nearest element around all: a PCI device where there is one
 * @param width the lanes of all of them together, limited by the bridges in between
 */
record NicDistance(PathType type, XmlElement common, int width) {

  static NicDistance of(List<XmlElement> nets) {
    if (nets.size() == 1) {
      return new NicDistance(PathType.LOC, pci(nets.get(0)), 0);
    }
    List<List<XmlElement>> ways = nets.stream().map(NicDistance::way).toList();
    XmlElement common = ways.get(0).get(0);
    int depth = 0;
    while (isShared(ways, depth)) {
      common = ways.get(0).get(depth++);
    }
    PathType type = functionsOfOneCard(ways, depth) ? PathType.NVL : type(common, nets);
    XmlElement parent = pci(common);
    int width = 0;
    for (XmlElement child : parent.children()) {
      width += Math.max(0, lanes(child, nets));
    }
    return new NicDistance(type, parent, width);
  }

  /** True if lanes of the networks add up on the way to what they have in common. */
  boolean addsUp() {
    return width > 0 && (type == PathType.PIX || type == PathType.PXB || type == PathType.PHB);
  }

  /** From the top element down. */
  private static List<XmlElement> way(XmlElement net) {
    List<XmlElement> way = new ArrayList<>();
    for (XmlElement at = net; at != null; at = at.parent()) {
      way.add(0, at);
    }
    return way;
  }

  private static boolean isShared(List<List<XmlElement>> ways, int depth) {
    return ways.stream()
        .allMatch(way -> depth < way.size() && way.get(depth) == ways.get(0).get(depth));
  }

  /** True if the ways part at functions of one device, whose addresses differ in the last digit. */
  private static boolean functionsOfOneCard(List<List<XmlElement>> ways, int depth) {
    String first = null;
    for (List<XmlElement> way : ways) {
      String busId = depth < way.size() ? way.get(depth).text("busid").orElse("") : "";
      String card = busId.isEmpty() ? null : busId.substring(0, busId.length() - 1);
      if (card == null || (first != null && !card.equals(first))) {
        return false;
      }
      first = card;
    }
    return true;
  }

  private static PathType type(XmlElement common, List<XmlElement> nets) {
    return switch (common.name()) {
      case "system" -> PathType.SYS;
      case "cpu" -> PathType.PHB;
      case "nic", "net" -> PathType.NVL;
      default ->
          nets.stream().allMatch(net -> pciOf(net).parent() == common)
              ? PathType.PIX
              : PathType.PXB;
    };
  }

  /** The element itself or the first PCI device around it; else itself. */
  private static XmlElement pci(XmlElement element) {
    for (XmlElement at = element; at != null; at = at.parent()) {
      if (at.is("pci")) {
        return at;
      }
    }
    return element;
  }

  /** False for a network without a PCI device, such as Soft-RoCE. */
  static boolean isCard(XmlElement net) {
    return pci(net).is("pci");
  }

  /** The card of a network. */
  static XmlElement pciOf(XmlElement net) {
    XmlElement pci = pci(net);
    if (!pci.is("pci")) {
      throw net.error("is on no PCI device", "fuse only networks of PCI cards");
    }
    return pci;
  }

  /** Lanes towards the networks below an element; -1 if there are none of them. */
  private static int lanes(XmlElement element, List<XmlElement> nets) {
    boolean found = nets.stream().anyMatch(net -> net == element);
    int below = 0;
    for (XmlElement child : element.children()) {
      int lanes = lanes(child, nets);
      found |= lanes >= 0;
      below += Math.max(0, lanes);
    }
    if (!found) {
      return -1;
    }
    int own = element.is("pci") ? element.intOr("link_width", 0) : 0;
    if (below == 0) {
      return own;
    }
    return own > 0 ? Math.min(own, below) : below;
  }
}
