package org.nccl4j.topo.path;

import java.util.Arrays;
import java.util.List;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.system.Bandwidths;
import org.nccl4j.topo.system.Link;
import org.nccl4j.topo.system.Node;

/** The way from one node to another. Immutable. */
public final class Path {
  static final Path NONE = new Path(PathType.DIS, 0, new Link[0]);
  static final Path SELF = new Path(PathType.LOC, Bandwidths.LOCAL, new Link[0]);

  private final PathType type;
  private final float bandwidth;
  private final Link[] links;

  private Path(PathType type, float bandwidth, Link[] links) {
    this.type = type;
    this.bandwidth = bandwidth;
    this.links = links;
  }

  /** Returns the path's type, which is its distance. */
  public PathType type() {
    return type;
  }

  /** Returns the bandwidth of the narrowest link, in GB/s. */
  public float bandwidth() {
    return bandwidth;
  }

  /** Returns the number of links, including those between a GPU's rank and its device. */
  public int hops() {
    return links.length;
  }

  /** A link, counted from the start. */
  public Link link(int hop) {
    return links[hop];
  }

  /** The node that a link leads to. */
  public Node node(int hop) {
    return links[hop].to();
  }

  /** Returns the links in order. */
  public List<Link> links() {
    return List.of(links);
  }

  Path withType(PathType changed) {
    return new Path(changed, bandwidth, links);
  }

  /** This path, reached over one more link at its start. */
  Path after(Link first, PathType extended, float narrowest) {
    Link[] longer = new Link[links.length + 1];
    longer[0] = first;
    System.arraycopy(links, 0, longer, 1, links.length);
    return new Path(extended, narrowest, longer);
  }

  /** This path and then another. */
  Path then(Path next, PathType joined) {
    Link[] longer = Arrays.copyOf(links, links.length + next.links.length);
    System.arraycopy(next.links, 0, longer, links.length, next.links.length);
    return new Path(joined, Math.min(bandwidth, next.bandwidth), longer);
  }
}
