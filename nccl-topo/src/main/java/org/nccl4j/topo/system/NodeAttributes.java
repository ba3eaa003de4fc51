package org.nccl4j.topo.system;

import java.util.Set;

/** Attributes of a node beyond its place in the graph, by kind of node. */
public sealed interface NodeAttributes {

  /** A node of which only its place matters: a network card, an NVSwitch, a C2C bridge. */
  record None() implements NodeAttributes {}

  /**
   * A rank's GPU.
   *
   * @param rank the rank
   * @param dev the driver's number of the device
   * @param sm the compute capability, such as 90
   * @param gdr whether network cards may write to it directly
   * @param partition which partition of the device it is, or -1
   * @param forbiddenPeers bus addresses of GPUs to which the host's driver forbids peer access
   */
  record Gpu(int rank, int dev, int sm, boolean gdr, int partition, Set<Long> forbiddenPeers)
      implements NodeAttributes {
    /** Copies the set. */
    public Gpu {
      forbiddenPeers = Set.copyOf(forbiddenPeers);
    }

    /** True if the driver forbids peer access to a GPU of the same host. */
    public boolean isForbidden(Node peer) {
      return forbiddenPeers.contains(PciIds.withoutPartition(peer.parentDevice().id()));
    }
  }

  /**
   * A GPU as a device on the bus.
   *
   * @param dev the driver's number of the device
   * @param sm the compute capability
   * @param id vendor, device and subsystem in one number
   */
  record Device(int dev, int sm, long id) implements NodeAttributes {}

  /**
   * A PCIe switch.
   *
   * @param id vendor, device and subsystem in one number
   */
  record Pci(long id) implements NodeAttributes {}

  /**
   * A NUMA node.
   *
   * @param arch its architecture
   * @param vendor its vendor, on x86
   * @param model its generation, as far as it decides a speed
   * @param affinity its CPUs as a kernel mask, or empty
   */
  record Cpu(Arch arch, Vendor vendor, Model model, String affinity) implements NodeAttributes {
    /** True if it is an x86 of that vendor. */
    public boolean isX86(Vendor which) {
      return arch == Arch.X86 && vendor == which;
    }
  }

  /**
   * A port of a network card.
   *
   * @param dev the network plug-in's number
   * @param name the network plug-in's name
   * @param asic the card's guid, which is the same on all its ports
   * @param port the port's number on the card
   * @param bandwidth in GB/s
   * @param latency in microseconds
   * @param gdr whether it reaches GPU memory
   * @param coll whether the network reduces
   * @param rail the rail, or -1
   * @param plane the network plane, or -1
   * @param bus the PCI address, or the guid where there is none
   */
  record Net(
      int dev,
      String name,
      long asic,
      int port,
      float bandwidth,
      float latency,
      boolean gdr,
      boolean coll,
      int rail,
      int plane,
      String bus)
      implements NodeAttributes {}

  /** CPU architectures. The number is NCCL's. */
  enum Arch {
    /** None of the known. */
    OTHER,
    /** 64-bit x86. */
    X86,
    /** POWER. */
    POWER,
    /** 64-bit Arm. */
    ARM,
    /** Not the same on all ranks. */
    MIXED
  }

  /** CPU vendors. The number is NCCL's. */
  enum Vendor {
    /** None of the known. */
    OTHER,
    /** Intel. */
    INTEL,
    /** AMD. */
    AMD,
    /** Zhaoxin. */
    ZHAOXIN,
    /** Not the same on all ranks. */
    MIXED
  }

  /** CPU generations that differ in the speed between sockets. */
  enum Model {
    /** No generation that matters. */
    OTHER,
    /** Intel up to Broadwell. */
    BROADWELL,
    /** Intel Skylake to Ice Lake. */
    SKYLAKE,
    /** Intel Sapphire Rapids. */
    SAPPHIRE_RAPIDS,
    /** Intel Emerald Rapids and later. */
    EMERALD_RAPIDS,
    /** Zhaoxin Yongfeng. */
    YONGFENG
  }
}
