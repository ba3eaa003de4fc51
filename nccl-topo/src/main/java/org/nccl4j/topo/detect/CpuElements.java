package org.nccl4j.topo.detect;

import java.util.HashSet;
import java.util.Optional;
import java.util.Set;
import org.nccl4j.topo.xml.XmlElement;

/** The CPU elements of a topology. All CPUs of a host are assumed to be equal. */
final class CpuElements {
  private static final int LAST_BASE_FAMILY = 15;

  private final SysFiles files;
  private final String info;
  private final long hostHash;
  private final Set<XmlElement> complete = new HashSet<>();

  CpuElements(SysFiles files, long hostHash) {
    this.files = files;
    this.info = files.cpuInfo();
    this.hostHash = hostHash;
  }

  /** The element of a NUMA node; made if it is new. It lacks nothing. */
  XmlElement element(XmlElement system, String numa) {
    Optional<XmlElement> known =
        system.children().stream().filter(cpu -> cpu.require("numaid").equals(numa)).findFirst();
    return complete(
        known.orElseGet(
            () -> system.add(XmlElement.of("cpu").set("host_hash", hash()).set("numaid", numa))));
  }

  /** Adds what an element lacks. */
  XmlElement complete(XmlElement cpu) {
    if (!complete.add(cpu)) {
      return cpu;
    }
    cpu.setIfAbsent("host_hash", hash());
    String mask = files.sys("devices/system/node/node" + cpu.require("numaid") + "/cpumap");
    cpu.setIfAbsent("affinity", mask);
    String vendor = value("vendor_id");
    if (!vendor.isEmpty()) {
      cpu.setIfAbsent("arch", "x86_64").setIfAbsent("vendor", vendor);
      cpu.setIfAbsent("familyid", family(number(value("cpu family"))));
      cpu.setIfAbsent("modelid", number(value("model")));
    } else {
      cpu.setIfAbsent("arch", value("cpu").contains("POWER") ? "ppc64" : "arm64");
    }
    return cpu;
  }

  private String hash() {
    return "0x" + Long.toHexString(hostHash);
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
