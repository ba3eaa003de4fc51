package org.nccl4j.topo;

/** The kind of a node of the machine graph, in NCCL's words. */
public enum NodeType {
  /** A rank's GPU, or its share of one. */
  GPU,
  /** A PCIe switch or bridge. */
  PCI,
  /** All NVSwitches of a machine, or of an NVLink domain, as one. */
  NVS,
  /** A NUMA node. */
  CPU,
  /** A network card. */
  NIC,
  /** A port of a network card, as the network plug-in numbers them. */
  NET,
  /** A GPU as a device on the bus; the ranks that use it hang below it. */
  DEV,
  /** The C2C bridge that the partitions of one GPU share. */
  CXB
}
