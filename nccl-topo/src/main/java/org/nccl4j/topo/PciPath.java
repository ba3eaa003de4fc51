package org.nccl4j.topo;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.regex.Pattern;

/**
 * A PCI device's place in the kernel's tree of buses, such as {@code
 * /sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0}.
 *
 * @param folder the device's, without links in it
 */
public record PciPath(Path folder) {
  private static final Pattern ADDRESS =
      Pattern.compile("[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\\.[0-9a-f]");
  private static final String UNKNOWN_NUMA = "-1";

  /** True if a folder's name is the address of a device. */
  public static boolean isAddress(String name) {
    return ADDRESS.matcher(name).matches();
  }

  /**
   * The switch above the device; empty below a CPU. A switch appears as an upstream port with
   * downstream ports below it. The upstream port, two levels up, represents the switch.
   */
  public Optional<PciPath> aboveSwitch() {
    Path port = folder.getParent();
    Path upstream = port == null ? null : port.getParent();
    return upstream != null && isAddress(name(port)) && isAddress(name(upstream))
        ? Optional.of(new PciPath(upstream))
        : Optional.empty();
  }

  /** The address of the device. */
  public String address() {
    return name(folder);
  }

  private static String name(Path path) {
    return String.valueOf(path.getFileName());
  }

  /**
   * The distance to another device of this machine: LOC to itself, NVL to another function of its
   * card, as {@code NCCL_NET_MERGE_LEVEL=PORT} has it, PIX below the same switch, PXB below another
   * switch of the same tree, PHB at the same NUMA node, else SYS.
   */
  public PathType to(PciPath other) {
    if (folder.equals(other.folder)) {
      return PathType.LOC;
    }
    if (card().equals(other.card())) {
      return PathType.NVL;
    }
    List<PciPath> mine = switches();
    List<PciPath> theirs = other.switches();
    if (!mine.isEmpty() && !theirs.isEmpty() && mine.get(0).equals(theirs.get(0))) {
      return PathType.PIX;
    }
    if (mine.stream().anyMatch(theirs::contains)) {
      return PathType.PXB;
    }
    return numa().equals(other.numa()) ? PathType.PHB : PathType.SYS;
  }

  /** The device's place without the number of its function. */
  private String card() {
    String text = folder.toString();
    int function = text.lastIndexOf('.');
    return isAddress(name(folder)) && function >= 0 ? text.substring(0, function) : text;
  }

  /** The switches above, the nearest first. */
  private List<PciPath> switches() {
    List<PciPath> all = new ArrayList<>();
    Optional<PciPath> above = aboveSwitch();
    while (above.isPresent()) {
      all.add(above.get());
      above = above.get().aboveSwitch();
    }
    return all;
  }

  private String numa() {
    try {
      return Files.readString(folder.resolve("numa_node")).strip();
    } catch (IOException e) {
      return UNKNOWN_NUMA; // as the kernel says it where there is one node
    }
  }
}
