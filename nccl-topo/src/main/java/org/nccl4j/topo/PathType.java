package org.nccl4j.topo;

import java.util.Locale;
import java.util.Optional;

/**
 * The distance of two nodes, nearest first. The rules compare this order: {@code PXB} is at most
 * {@code PHB}.
 */
public enum PathType {
  /** The node itself. */
  LOC("the same device"),
  /** NVLink all the way. */
  NVL("NVLink"),
  /** NVLink with one GPU in between. */
  NVB("NVLink through another GPU"),
  /** NVLink C2C to the CPU. */
  C2C("NVLink C2C"),
  /** At most one PCIe switch. */
  PIX("one PCIe switch at most"),
  /** Several PCIe switches, no CPU. */
  PXB("several PCIe switches"),
  /** From a GPU over C2C to its CPU, and from there over PCIe to a network card. */
  P2C("C2C to the CPU, then PCIe"),
  /** Over NVLink to another GPU, and from there to its network card. */
  PXN("NVLink to the GPU beside the network card"),
  /** Through a CPU's PCIe host bridge. */
  PHB("the CPU's PCIe host bridge"),
  /** Between NUMA nodes. */
  SYS("the link between NUMA nodes"),
  /** Over the network. */
  NET("the network"),
  /** Not connected. */
  DIS("no connection");

  private static final PathType[] BY_DISTANCE = values();

  /** NCCL's numbers for levels before they had names. */
  private static final PathType[] OLD_LEVELS = {LOC, PIX, PXB, PHB, SYS, SYS};

  private final String words;

  PathType(String words) {
    this.words = words;
  }

  /** Returns a description of the links that the path uses. */
  public String words() {
    return words;
  }

  /** True if this is no further than the other. */
  public boolean within(PathType limit) {
    return ordinal() <= limit.ordinal();
  }

  /** The next longer distance; {@link #DIS} is its own. */
  public PathType next() {
    return BY_DISTANCE[Math.min(ordinal() + 1, DIS.ordinal())];
  }

  /** The longer of two. */
  public PathType max(PathType other) {
    return ordinal() >= other.ordinal() ? this : other;
  }

  /** The shorter of two. */
  public PathType min(PathType other) {
    return ordinal() <= other.ordinal() ? this : other;
  }

  /**
   * A level as NCCL_P2P_LEVEL and NCCL_NET_GDR_LEVEL write it: a name up to SYS in any case, or a
   * number of the old kind.
   */
  public static Optional<PathType> level(String text) {
    for (PathType type : BY_DISTANCE) {
      if (type.within(SYS) && type.name().equalsIgnoreCase(text)) {
        return Optional.of(type);
      }
    }
    if (text.matches("[0-9].*")) {
      long old = CNumber.prefix(text).orElse(0);
      return Optional.of(OLD_LEVELS[(int) Math.min(old, OLD_LEVELS.length - 1)]);
    }
    return Optional.empty();
  }

  /** The type of that name, in any case. */
  public static Optional<PathType> named(String text) {
    for (PathType type : BY_DISTANCE) {
      if (type.name().equals(text.toUpperCase(Locale.ROOT))) {
        return Optional.of(type);
      }
    }
    return Optional.empty();
  }
}
