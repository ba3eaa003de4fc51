package org.nccl4j.topo.system;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.nccl4j.topo.CNumber;
import org.nccl4j.topo.xml.XmlElement;

/**
 * Numbers the GPUs of a file from 0: in the order of their rank attributes, or by host and device
 * if the file has none, such as a hand-written file or one for a virtual machine.
 */
public final class RankOrder {
  private record Gpu(XmlElement element, int host, int dev, int rank, boolean hidden) {}

  private RankOrder() {}

  /** Sets the rank attributes in place; returns the GPU elements in rank order. */
  public static List<XmlElement> apply(XmlElement system) {
    List<Gpu> gpus = new ArrayList<>();
    List<Long> hosts = new ArrayList<>();
    for (XmlElement cpu : system.children()) {
      long hash = cpu.text("host_hash").map(CNumber::hex).orElse(0L);
      if (!hosts.contains(hash)) {
        hosts.add(hash);
      }
      collect(cpu, hosts.indexOf(hash), false, gpus);
    }
    boolean ranked = gpus.stream().anyMatch(gpu -> gpu.rank >= 0);
    if (ranked) {
      gpus.removeIf(gpu -> gpu.rank < 0);
    }
    gpus.sort(
        ranked
            ? Comparator.comparingInt(Gpu::rank)
            : Comparator.comparingInt(Gpu::host).thenComparingInt(Gpu::dev));
    for (int i = 0; i < gpus.size(); i++) {
      check(gpus.get(i), ranked && i > 0 && gpus.get(i).rank == gpus.get(i - 1).rank);
    }
    for (int i = 0; i < gpus.size(); i++) {
      gpus.get(i).element.set("rank", i);
    }
    return gpus.stream().map(Gpu::element).toList();
  }

  private static void check(Gpu gpu, boolean repeated) {
    if (repeated) {
      throw gpu.element.error("repeats rank " + gpu.rank, "give every GPU its own rank");
    }
    if (gpu.hidden) {
      // The card is a leaf of the graph, so the rank would have no GPU there.
      throw gpu.element.error(
          "is below a network card, where no GPU is looked for",
          "put the GPU's <pci> beside the card's, or take its rank away");
    }
  }

  private static void collect(XmlElement element, int host, boolean hidden, List<Gpu> gpus) {
    if (element.is("gpu")) {
      int rank = element.text("rank").isEmpty() ? -1 : element.requireInt("rank");
      if (rank < -1) {
        throw element.error("rank " + rank + " is negative", "number the ranks from 0");
      }
      if (rank == -1 && element.text("rank").isPresent()) {
        element.unset("rank");
      }
      gpus.add(new Gpu(element, host, element.intOr("dev", 0), rank, hidden));
    }
    boolean card = element.is("pci") && element.child("nic").isPresent();
    for (XmlElement child : element.children()) {
      collect(child, host, hidden || (card && child.is("pci")), gpus);
    }
  }
}
