package org.nccl4j.topo.detect;

import java.util.Optional;
import org.nccl4j.topo.xml.XmlElement;

/** The CPU elements of a topology. All CPUs of a host are assumed to be equal. */
final class CpuElements {
  private static final int LAST_BASE_FAMILY = 15;

  private final SysFiles files;
  private final String info;
  private final long hostHash;

  CpuElements(SysFiles files, long hostHash) {
    this.files = files;
    this.info = files.cpuInfo();
    this.hostHash = hostHash;
  }

  /** The element of a NUMA node; made if it is new. */
  XmlElement element(XmlElement system, String numa) {
    Optional<XmlElement> known =
        system.children().stream().filter(cpu -> cpu.require("numaid").equals(numa)).findFirst();
    return known.orElseGet(() -> system.add(make(numa)));
  }

  private XmlElement make(String numa) {
    XmlElement cpu =
        XmlElement.of("cpu")
            .set("host_hash", "0x" + Long.toHexString(hostHash))
            .set("numaid", numa);
    String mask = files.sys("devices/system/node/node" + numa + "/cpumap");
    cpu.set("affinity", mask);
    String vendor = value("vendor_id");
    if (!vendor.isEmpty()) {
      cpu.set("arch", "x86_64").set("vendor", vendor);
      cpu.set("familyid", family(number(value("cpu family"))));
      cpu.set("modelid", number(value("model")));
    } else {
      cpu.set("arch", value("cpu").contains("POWER") ? "ppc64" : "arm64");
    }
    return cpu;
  }

  /** The kernel adds the extended family, topology files have it four bits higher. */
  private static int family(int kernel) {
    int extended = Math.max(0, kernel - LAST_BASE_FAMILY);
    return kernel - extended + (extended << 4);
  }

  private String value(String key) {
    return info.lines()
        .filter(line -> line.replaceFirst("\\s*:.*", "").equals(key) && line.contains(":"))
        .map(line -> line.substring(line.indexOf(':') + 1).strip())
        .findFirst()
        .orElse("");
  }

  private static int number(String text) {
    return text.matches("[0-9]{1,6}") ? Integer.parseInt(text) : 0;
  }
}
