package org.nccl4j.topo.system;

import org.nccl4j.topo.CNumber;
import org.nccl4j.topo.LinkType;
import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.xml.XmlElement;

/**
 * The networks of a card. Files of virtual machines name one device twice, below two CPUs; both are
 * kept, and no path leads to the second.
 */
final class NetNodes {
  private final MachineNodes machine;

  NetNodes(MachineNodes machine) {
    this.machine = machine;
  }

  /** Adds the nets that have a number and are for ordinary traffic. */
  void add(XmlElement nicElement, Node nic) {
    for (XmlElement net : nicElement.children()) {
      if (net.is("net") && net.text("dev").isPresent() && net.intOr("net", 1) != 0) {
        addNet(net, nic);
      }
    }
  }

  private void addNet(XmlElement element, Node nic) {
    int dev = element.requireInt("dev");
    NodeAttributes.Net attributes = attributes(element, dev, nic.host());
    Node net = machine.create(element, NodeType.NET, nic.host(), dev, attributes);
    MachineNodes.connect(nic, net, LinkType.NET, attributes.bandwidth());
  }

  private NodeAttributes.Net attributes(XmlElement element, int dev, int host) {
    // Without a guid the device itself stands for its card.
    long asic = element.text("guid").map(CNumber::hex).orElse(((long) host << 56) + dev);
    return new NodeAttributes.Net(
        dev,
        element.text("name").orElse("net" + dev),
        asic,
        element.intOr("port", 0),
        Bandwidths.net(element.intOr("speed", 0)),
        latency(element),
        element.intOr("gdr", machine.assumptions().gdr() ? 1 : 0) != 0,
        element.intOr("coll", machine.assumptions().coll() ? 1 : 0) != 0,
        element.intOr("rail", -1),
        element.intOr("plane", -1),
        bus(element, asic));
  }

  private static float latency(XmlElement element) {
    String text = element.text("latency").orElse("0").strip();
    try {
      float latency = text.isEmpty() ? 0 : Float.parseFloat(text);
      if (!Float.isFinite(latency) || latency < 0) {
        throw element.error("latency=\"" + text + "\" is not a time", "write microseconds");
      }
      return latency;
    } catch (NumberFormatException e) {
      throw element.error("latency=\"" + text + "\" is not a number", "write microseconds");
    }
  }

  private static String bus(XmlElement element, long asic) {
    XmlElement at = element;
    while (at != null && !at.is("pci")) {
      at = at.parent();
    }
    return at == null ? Long.toHexString(asic) : at.require("busid");
  }
}
