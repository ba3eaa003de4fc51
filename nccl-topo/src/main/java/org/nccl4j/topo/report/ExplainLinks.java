package org.nccl4j.topo.report;

import java.util.Locale;
import org.nccl4j.topo.LinkType;
import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.system.Bandwidths;
import org.nccl4j.topo.system.Link;
import org.nccl4j.topo.system.Machine;
import org.nccl4j.topo.system.Node;

/** Explains the width of each link. */
final class ExplainLinks {
  private static final String SECTION = "Links";

  private final Sentences sentences;

  ExplainLinks(Sentences sentences) {
    this.sentences = sentences;
  }

  void write(Machine machine) {
    for (Node device : machine.devices()) {
      for (Link link : device.links()) {
        switch (link.type()) {
          case NVL -> nvLink(device, link);
          case C2C ->
              say(
                  device,
                  "C2C to its CPU, "
                      + ReportText.gb(link.bandwidth())
                      + ", from bw and count in the file.");
          case PCI -> pci(device, link);
          default -> {}
        }
      }
    }
    for (Node cpu : machine.cpus()) {
      cpu.links().stream()
          .filter(link -> link.type() == LinkType.SYS)
          .findFirst()
          .ifPresent(link -> betweenCpus(cpu, link));
    }
    for (Node net : machine.nets()) {
      say(
          net,
          ReportText.gb(net.net().bandwidth())
              + ", from speed in the file (10 Gb/s where it has none).");
    }
  }

  private void nvLink(Node device, Link link) {
    float one = Bandwidths.nvLink(device.device().sm());
    String to = link.to().type() == NodeType.NVS ? "the NVSwitch" : "another GPU";
    say(
        device,
        String.format(
            Locale.ROOT,
            "%s NVLinks to %s of %s each (compute capability %d), %s in all.",
            ReportText.gb(link.bandwidth() / one).replace(" GB/s", ""),
            to,
            ReportText.gb(one),
            device.device().sm(),
            ReportText.gb(link.bandwidth())));
  }

  private void pci(Node device, Link link) {
    String to = link.to().type() == NodeType.CPU ? "its CPU" : "a switch";
    say(
        device,
        "PCIe to "
            + to
            + ", "
            + ReportText.gb(link.bandwidth())
            + ", from link_speed and link_width in the file.");
  }

  private void betweenCpus(Node cpu, Link link) {
    say(
        cpu,
        ReportText.gb(link.bandwidth())
            + " to every other NUMA node of its host, as assumed for "
            + ReportText.cpu(cpu.cpu())
            + " (a wrong vendor or modelid in the file changes it).");
  }

  private void say(Node about, String sentence) {
    Node named = about;
    if (about.type() == NodeType.DEV) {
      named =
          about.links().stream()
              .map(Link::to)
              .filter(node -> node.type() == NodeType.GPU)
              .findFirst()
              .orElse(about);
    }
    sentences.say(SECTION, ReportText.name(named), sentence);
  }
}
