package org.nccl4j.topo.system;

import org.nccl4j.topo.CNumber;
import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.xml.XmlElement;

/** Addresses, classes and identities of PCI devices. */
public final class PciIds {
  /** Low bits of an address that number the partition of a device. */
  private static final long PARTITION_MASK = 3;

  private PciIds() {}

  /**
   * A bus address such as 0000:1b:00.0 as one number; the first character that is no hexadecimal
   * digit ends it.
   */
  public static long bus(String text) {
    StringBuilder digits = new StringBuilder();
    for (int i = 0; i < text.length() && digits.length() < 16; i++) {
      char c = text.charAt(i);
      if (c == '.' || c == ':') {
        continue;
      }
      if (Character.digit(c, 16) < 0) {
        break;
      }
      digits.append(c);
    }
    return digits.isEmpty() ? 0 : CNumber.hex(digits.toString());
  }

  /** Returns the node type of a PCI class. */
  public static NodeType kind(String pciClass) {
    if (pciClass.startsWith("0x068000")) {
      return NodeType.NVS;
    }
    if (pciClass.startsWith("0x068001")) {
      return NodeType.CPU;
    }
    if (pciClass.startsWith("0x03")) {
      return NodeType.GPU;
    }
    return pciClass.startsWith("0x02") ? NodeType.NIC : NodeType.PCI;
  }

  static long identity(XmlElement pci) {
    return (part(pci, "vendor") << 48)
        + (part(pci, "device") << 32)
        + (part(pci, "subsystem_vendor") << 16)
        + part(pci, "subsystem_device");
  }

  private static long part(XmlElement pci, String attribute) {
    return pci.text(attribute).map(text -> CNumber.prefix(text).orElse(0)).orElse(0L);
  }

  static boolean hasPartitionBits(long bus) {
    return (bus & PARTITION_MASK) != 0;
  }

  static long partition(long bus, int partition) {
    return partition < 0 ? bus : bus | ((((long) partition << 1) | 1) & PARTITION_MASK);
  }

  static long withoutPartition(long bus) {
    return bus & ~PARTITION_MASK;
  }
}
