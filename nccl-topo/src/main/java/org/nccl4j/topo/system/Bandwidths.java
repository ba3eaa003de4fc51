package org.nccl4j.topo.system;

/** The bandwidths of links in GB/s, as NCCL 2.30 assumes them. */
public final class Bandwidths {
  /** Inside a device: no limit that matters. */
  public static final float LOCAL = 5000.0f;

  /** PCIe of the third generation, 16 lanes; below it Ring/Simple uses fewer threads. */
  public static final float PCI_GEN3 = 12.0f;

  static final float PARTITIONS = 2618.0f;

  /** A network whose speed is not known, in Mb/s. */
  private static final int DEFAULT_NET_MBPS = 10000;

  /** PCIe speeds as /sys writes them, with what a lane carries in 100 Mb/s. */
  private static final Object[][] PCI_SPEEDS = {
    {"2.5 GT/s", 15},
    {"5 GT/s", 30},
    {"8 GT/s", 60},
    {"16 GT/s", 120},
    {"32 GT/s", 240},
    {"5.0 GT/s PCIe", 30},
    {"8.0 GT/s PCIe", 60},
    {"16.0 GT/s PCIe", 120},
    {"32.0 GT/s PCIe", 240},
    {"64.0 GT/s PCIe", 480}
  };

  private static final int UNKNOWN_PCI_SPEED = 60;
  private static final int DEFAULT_PCI_WIDTH = 16;

  private Bandwidths() {}

  /** One NVLink of a GPU of that compute capability. */
  public static float nvLink(int sm) {
    if (sm >= 100) {
      return 40.1f;
    }
    if (sm >= 90) {
      return 20.6f;
    }
    if (sm == 86) {
      return 12.0f;
    }
    if (sm >= 70 || sm < 60) {
      return 20.0f;
    }
    return 18.0f;
  }

  static float pci(String speed, int width) {
    int lane = UNKNOWN_PCI_SPEED;
    for (Object[] known : PCI_SPEEDS) {
      if (speed.startsWith((String) known[0])) {
        lane = (Integer) known[1];
        break;
      }
    }
    int lanes = width == 0 ? DEFAULT_PCI_WIDTH : width;
    return (float) (lanes * lane / 80.0);
  }

  static float net(int mbps) {
    return (float) ((mbps <= 0 ? DEFAULT_NET_MBPS : mbps) / 8000.0);
  }

  static float c2c(int mbps, int count) {
    return (float) ((long) mbps * count / 1000.0);
  }

  /** Between two NUMA nodes, as the first of them decides. */
  static float betweenCpus(NodeAttributes.Cpu cpu) {
    return switch (cpu.arch()) {
      case POWER -> 32.0f;
      case ARM -> 6.0f;
      case X86 -> betweenX86(cpu);
      default -> LOCAL;
    };
  }

  private static float betweenX86(NodeAttributes.Cpu cpu) {
    return switch (cpu.vendor()) {
      case INTEL ->
          switch (cpu.model()) {
            case EMERALD_RAPIDS -> 40.0f;
            case SAPPHIRE_RAPIDS -> 22.0f;
            case SKYLAKE -> 10.0f;
            default -> 6.0f;
          };
      case AMD -> 16.0f;
      case ZHAOXIN -> cpu.model() == NodeAttributes.Model.YONGFENG ? 9.0f : 6.0f;
      default -> LOCAL;
    };
  }
}
