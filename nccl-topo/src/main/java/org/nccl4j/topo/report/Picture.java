package org.nccl4j.topo.report;

import java.util.List;
import org.nccl4j.topo.LinkType;

/**
 * A picture of a host whose links can be coloured: each link is a group of class {@code link}, and
 * its label one of class {@code tag}, with the link's {@code data-id}.
 *
 * @param svg the document
 * @param edges its links, in the order in which they are drawn
 */
public record Picture(String svg, List<Edge> edges) {
  /**
   * A link.
   *
   * @param id the ids of its ends, the one that is first by letters before the other, and the type
   *     of NVLink and C2C: there may be PCIe between the same ends
   * @param name for people
   * @param gigabytes GB/s that it carries one way; 0 if that is not known
   */
  public record Edge(String id, String name, double gigabytes) {}

  static Edge edge(String one, String other, String name, double gigabytes) {
    return new Edge(id(one, other), name, gigabytes);
  }

  /** The id of the link between two nodes, by theirs. */
  public static String id(String one, String other) {
    return isForward(one, other) ? one + "|" + other : other + "|" + one;
  }

  /** The id of a link of a machine. */
  public static String id(String one, String other, LinkType type) {
    boolean named = type == LinkType.NVL || type == LinkType.C2C;
    return id(one, other) + (named ? "|" + type : "");
  }

  /** True if the way from one node to the other is the order of their link's id. */
  public static boolean isForward(String from, String to) {
    return from.compareTo(to) <= 0;
  }
}
