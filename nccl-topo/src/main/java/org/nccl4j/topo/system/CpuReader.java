package org.nccl4j.topo.system;

import org.nccl4j.topo.xml.XmlElement;

/** Reads the CPUs of a {@code <cpu>} element. */
final class CpuReader {
  private static final int INTEL_FAMILY = 6;
  private static final int EMERALD_RAPIDS = 0xCF;
  private static final int SAPPHIRE_RAPIDS = 0x8F;
  private static final int SKYLAKE = 0x55;
  private static final int YONGFENG_FAMILY = 7;
  private static final int YONGFENG = 0x5B;

  private CpuReader() {}

  static NodeAttributes.Cpu read(XmlElement cpu) {
    NodeAttributes.Arch arch = arch(cpu.require("arch"));
    NodeAttributes.Vendor vendor = NodeAttributes.Vendor.OTHER;
    NodeAttributes.Model model = NodeAttributes.Model.OTHER;
    if (arch == NodeAttributes.Arch.X86) {
      vendor = vendor(cpu.require("vendor"));
      model = model(cpu, vendor);
    }
    return new NodeAttributes.Cpu(arch, vendor, model, cpu.text("affinity").orElse(""));
  }

  private static NodeAttributes.Arch arch(String text) {
    if (text.startsWith("x86_64")) {
      return NodeAttributes.Arch.X86;
    }
    if (text.startsWith("arm64")) {
      return NodeAttributes.Arch.ARM;
    }
    return text.startsWith("ppc64") ? NodeAttributes.Arch.POWER : NodeAttributes.Arch.OTHER;
  }

  private static NodeAttributes.Vendor vendor(String text) {
    if (text.startsWith("GenuineIntel")) {
      return NodeAttributes.Vendor.INTEL;
    }
    if (text.startsWith("AuthenticAMD")) {
      return NodeAttributes.Vendor.AMD;
    }
    boolean zhaoxin = text.startsWith("CentaurHauls") || text.startsWith("  Shanghai  ");
    return zhaoxin ? NodeAttributes.Vendor.ZHAOXIN : NodeAttributes.Vendor.OTHER;
  }

  private static NodeAttributes.Model model(XmlElement cpu, NodeAttributes.Vendor vendor) {
    if (vendor != NodeAttributes.Vendor.INTEL && vendor != NodeAttributes.Vendor.ZHAOXIN) {
      return NodeAttributes.Model.OTHER;
    }
    int family = cpu.requireInt("familyid");
    int model = cpu.requireInt("modelid");
    if (vendor == NodeAttributes.Vendor.ZHAOXIN) {
      boolean yongfeng = family == YONGFENG_FAMILY && model == YONGFENG;
      return yongfeng ? NodeAttributes.Model.YONGFENG : NodeAttributes.Model.OTHER;
    }
    if (family != INTEL_FAMILY || model < SKYLAKE) {
      return NodeAttributes.Model.BROADWELL;
    }
    if (model >= EMERALD_RAPIDS) {
      return NodeAttributes.Model.EMERALD_RAPIDS;
    }
    return model >= SAPPHIRE_RAPIDS
        ? NodeAttributes.Model.SAPPHIRE_RAPIDS
        : NodeAttributes.Model.SKYLAKE;
  }
}
