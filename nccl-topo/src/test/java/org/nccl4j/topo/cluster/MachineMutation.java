package org.nccl4j.topo.cluster;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.nccl4j.topo.xml.XmlElement;

/**
 * Machines that nobody built: those of the tests with parts lost, moved, slowed down or changed.
 */
final class MachineMutation {
  private static final String[] SPEEDS = {
    "2.5 GT/s PCIe", "8.0 GT/s PCIe", "16.0 GT/s PCIe", "32.0 GT/s PCIe", "64.0 GT/s PCIe", ""
  };
  private static final String[] ARCHITECTURES = {
    "arch=x86_64 vendor=GenuineIntel familyid=6 modelid=79",
    "arch=x86_64 vendor=GenuineIntel familyid=6 modelid=85",
    "arch=x86_64 vendor=GenuineIntel familyid=6 modelid=143",
    "arch=x86_64 vendor=AuthenticAMD familyid=175 modelid=1",
    "arch=arm64",
    "arch=ppc64"
  };
  private static final int[] GENERATIONS = {60, 70, 80, 86, 90, 100, 120};
  private static final int[] MBPS = {10000, 25000, 100000, 200000, 400000, 800000, -1};

  private final XmlElement system;
  private final Random random;

  private MachineMutation(XmlElement system, Random random) {
    this.system = system;
    this.random = random;
  }

  /** Changes a machine in place, one to four times, and numbers its ranks again. */
  static void apply(XmlElement system, Random random) {
    MachineMutation mutation = new MachineMutation(system, random);
    for (int times = 1 + random.nextInt(4); times > 0; times--) {
      mutation.change();
    }
    int rank = 0;
    for (XmlElement gpu : mutation.all("gpu")) {
      gpu.set("rank", rank++);
    }
  }

  private List<XmlElement> all(String tag) {
    List<XmlElement> found = new ArrayList<>();
    collect(system, tag, found);
    return found;
  }

  private static void collect(XmlElement element, String tag, List<XmlElement> found) {
    if (element.is(tag)) {
      found.add(element);
    }
    element.children().forEach(child -> collect(child, tag, found));
  }

  private XmlElement any(List<XmlElement> elements) {
    return elements.get(random.nextInt(elements.size()));
  }

  private void change() {
    List<XmlElement> gpus = all("gpu");
    List<XmlElement> nics = all("nic");
    List<XmlElement> links = all("nvlink");
    switch (random.nextInt(12)) {
      case 0, 1 -> lose(gpus, 1 + random.nextInt(3));
      case 2 -> lose(nics, 1 + random.nextInt(2));
      case 3 -> cpus();
      case 4 -> {
        int sm = GENERATIONS[random.nextInt(GENERATIONS.length)];
        gpus.forEach(gpu -> gpu.set("sm", sm));
      }
      case 5 -> any(gpus).set("sm", GENERATIONS[random.nextInt(GENERATIONS.length)]);
      case 6 -> {
        XmlElement pci = any(all("pci"));
        pci.set("link_speed", SPEEDS[random.nextInt(SPEEDS.length)]);
        pci.set("link_width", 1 << random.nextInt(5));
      }
      case 7 -> {
        int mbps = MBPS[random.nextInt(MBPS.length)];
        all("net").forEach(net -> net.set("speed", mbps));
      }
      case 8 -> {
        if (!links.isEmpty()) {
          XmlElement link = any(links);
          link.set("count", 1 + random.nextInt(18));
        }
      }
      case 9 -> links.forEach(link -> link.parent().remove(link));
      case 10 -> all("net").forEach(net -> net.set("gdr", random.nextInt(2)));
      default -> move(random.nextBoolean() ? gpus : nics);
    }
  }

  private void lose(List<XmlElement> devices, int most) {
    for (int i = 0; i < most && devices.size() > 1; i++) {
      XmlElement device = any(devices);
      devices.remove(device);
      XmlElement place = device.parent();
      place.parent().remove(place);
    }
  }

  private void cpus() {
    String kind = ARCHITECTURES[random.nextInt(ARCHITECTURES.length)];
    for (XmlElement cpu : all("cpu")) {
      List.of("arch", "vendor", "familyid", "modelid").forEach(cpu::unset);
      for (String attribute : kind.split(" ")) {
        cpu.set(attribute.split("=")[0], attribute.split("=")[1]);
      }
    }
  }

  /** A card is put into another socket. */
  private void move(List<XmlElement> devices) {
    if (devices.isEmpty()) {
      return;
    }
    XmlElement place = any(devices).parent();
    if (place.is("pci")) {
      place.parent().remove(place);
      any(all("cpu")).add(place);
    }
  }
}
