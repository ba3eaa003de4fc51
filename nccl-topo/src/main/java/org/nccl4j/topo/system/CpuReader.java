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

  static Facts.Cpu read(XmlElement cpu) {
    Facts.Arch arch = arch(cpu.require("arch"));
    Facts.Vendor vendor = Facts.Vendor.OTHER;
    Facts.Model model = Facts.Model.OTHER;
    if (arch == Facts.Arch.X86) {
      vendor = vendor(cpu.require("vendor"));
      model = model(cpu, vendor);
    }
    return new Facts.Cpu(arch, vendor, model, cpu.text("affinity").orElse(""));
  }

  private static Facts.Arch arch(String text) {
    if (text.startsWith("x86_64")) {
      return Facts.Arch.X86;
    }
    if (text.startsWith("arm64")) {
      return Facts.Arch.ARM;
    }
    return text.startsWith("ppc64") ? Facts.Arch.POWER : Facts.Arch.OTHER;
  }

  private static Facts.Vendor vendor(String text) {
    if (text.startsWith("GenuineIntel")) {
      return Facts.Vendor.INTEL;
    }
    if (text.startsWith("AuthenticAMD")) {
      return Facts.Vendor.AMD;
    }
    boolean zhaoxin = text.startsWith("CentaurHauls") || text.startsWith("  Shanghai  ");
    return zhaoxin ? Facts.Vendor.ZHAOXIN : Facts.Vendor.OTHER;
  }

  private static Facts.Model model(XmlElement cpu, Facts.Vendor vendor) {
    if (vendor != Facts.Vendor.INTEL && vendor != Facts.Vendor.ZHAOXIN) {
      return Facts.Model.OTHER;
    }
    int family = cpu.requireInt("familyid");
    int model = cpu.requireInt("modelid");
    if (vendor == Facts.Vendor.ZHAOXIN) {
      boolean yongfeng = family == YONGFENG_FAMILY && model == YONGFENG;
      return yongfeng ? Facts.Model.YONGFENG : Facts.Model.OTHER;
    }
    if (family != INTEL_FAMILY || model < SKYLAKE) {
      return Facts.Model.BROADWELL;
    }
    if (model >= EMERALD_RAPIDS) {
      return Facts.Model.EMERALD_RAPIDS;
    }
    return model >= SAPPHIRE_RAPIDS ? Facts.Model.SAPPHIRE_RAPIDS : Facts.Model.SKYLAKE;
  }
}
