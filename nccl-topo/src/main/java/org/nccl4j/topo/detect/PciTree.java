package org.nccl4j.topo.detect;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.nccl4j.topo.PciPath;
import org.nccl4j.topo.xml.XmlElement;

/**
 * The PCI elements of a topology, created on demand with all elements above them. Used by one
 * thread.
 */
final class PciTree {
  private static final Pattern SPEED = Pattern.compile("([0-9.]+) GT/s.*");
  private static final List<String> IDENTITY =
      List.of("class", "vendor", "device", "subsystem_vendor", "subsystem_device");
  private static final String BRIDGE = "0x060400";
  private static final String UNKNOWN_NUMA = "-1";

  private final SysFiles files;
  private final XmlElement system;
  private final CpuElements cpus;
  private final Map<String, XmlElement> known = new HashMap<>();

  /** Elements that were there at the start, as long as they are not known to lack nothing. */
  private final Map<String, XmlElement> given = new HashMap<>();

  PciTree(SysFiles files, XmlElement system, CpuElements cpus) {
    this.files = files;
    this.system = system;
    this.cpus = cpus;
    give(system);
  }

  private void give(XmlElement element) {
    if (element.is("pci")) {
      given.put(element.require("busid").toLowerCase(Locale.ROOT), element);
    }
    element.children().forEach(this::give);
  }

  /**
   * The element of a device; made, with the switches above it, if it is new. It lacks nothing, nor
   * do the elements above it.
   */
  XmlElement element(String busId, String defaultClass) {
    XmlElement element = known.get(busId);
    return element == null ? complete(busId, defaultClass) : element;
  }

  private XmlElement complete(String busId, String defaultClass) {
    XmlElement start = given.get(busId);
    XmlElement element = start == null ? XmlElement.of("pci").set("busid", busId) : start;
    known.put(busId, element);
    Optional<Path> folder = files.pci(busId);
    for (String attribute : IDENTITY) {
      String value = folder.map(path -> SysFiles.read(path, attribute)).orElse("");
      if (!value.isEmpty()) {
        element.setIfAbsent(attribute, value);
      }
    }
    element.setIfAbsent("class", defaultClass);
    element.setIfAbsent("link_speed", folder.map(PciTree::speed).orElse(""));
    element.setIfAbsent("link_width", folder.map(PciTree::width).orElse(""));
    if (start == null) {
      insert(parent(folder), element);
    } else {
      complete(start.parent());
    }
    return element;
  }

  /** Adds what an element that was there at the start lacks, a PCI device's or a CPU's. */
  void complete(XmlElement start) {
    if (start.is("cpu")) {
      cpus.complete(start);
    } else {
      element(start.require("busid").toLowerCase(Locale.ROOT), BRIDGE);
    }
  }

  /** The slower of the device and the port that it hangs on. */
  private static String speed(Path folder) {
    String device = SysFiles.read(folder, "max_link_speed");
    String port = SysFiles.read(folder.getParent(), "max_link_speed");
    return transfers(port) < transfers(device) ? port : device;
  }

  private static double transfers(String speed) {
    Matcher match = SPEED.matcher(speed);
    return match.matches() ? Double.parseDouble(match.group(1)) : Double.MAX_VALUE;
  }

  private static String width(Path folder) {
    int device = number(SysFiles.read(folder, "max_link_width"));
    int port = number(SysFiles.read(folder.getParent(), "max_link_width"));
    return String.valueOf(Math.min(device, port));
  }

  private static int number(String text) {
    return text.matches("[0-9]{1,4}") ? Integer.parseInt(text) : 0;
  }

  /** Returns the element above a device: a switch, or without one a CPU. */
  private XmlElement parent(Optional<Path> folder) {
    if (folder.isEmpty()) {
      return cpus.element(system, UNKNOWN_NUMA);
    }
    Optional<PciPath> above = new PciPath(folder.get()).aboveSwitch();
    if (above.isPresent()) {
      return element(above.get().address(), BRIDGE);
    }
    String numa = SysFiles.read(folder.get(), "numa_node");
    return cpus.element(system, numa.isEmpty() ? UNKNOWN_NUMA : numa);
  }

  /** Siblings are in the order of their addresses, whatever order they were found in. */
  private static void insert(XmlElement parent, XmlElement element) {
    int at = 0;
    for (XmlElement sibling : parent.children()) {
      String other = sibling.text("busid").orElse("");
      if (!other.isEmpty() && element.require("busid").compareTo(other) < 0) {
        break;
      }
      at++;
    }
    parent.add(at, element);
  }
}
