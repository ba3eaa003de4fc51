package org.nccl4j.topo;

/** The kind of a link of the machine graph. */
public enum LinkType {
  /** Inside a device. */
  LOC,
  /** NVLink. */
  NVL,
  /** NVLink C2C between a GPU and its CPU. */
  C2C,
  /** PCI Express. */
  PCI,
  /** Between NUMA nodes: UPI, xGMI, X-Bus and the like. */
  SYS,
  /** From a network card to its port. */
  NET
}
