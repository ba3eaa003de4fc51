package org.nccl4j.topo.path;

import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.system.Machine;
import org.nccl4j.topo.system.Node;

/**
 * The paths of one machine. Filled by {@link PathPlanner}, then only read; reading is safe from any
 * thread.
 */
public final class PathTable {
  private final Machine machine;
  private final Path[][] byTarget;
  private final int[] versions;

  PathTable(Machine machine) {
    this.machine = machine;
    this.byTarget = new Path[machine.nodes().size()][];
    this.versions = new int[machine.nodes().size()];
  }

  /** The machine. */
  public Machine machine() {
    return machine;
  }

  /** The path between two nodes; of type {@link PathType#DIS} if there is none. */
  public Path path(Node from, Node to) {
    Path[] paths = byTarget[to.ordinal()];
    Path path = paths == null ? null : paths[from.ordinal()];
    return path == null ? Path.NONE : path;
  }

  /** The shortest distance of any GPU to any node of that type, itself left out. */
  public PathType nearest(NodeType type) {
    PathType nearest = PathType.SYS;
    for (Node gpu : machine.gpus()) {
      for (Node node : machine.nodes(type)) {
        nearest = node == gpu ? nearest : nearest.min(path(gpu, node).type());
      }
    }
    return nearest;
  }

  /** The longest distance of any GPU to any node of that type, itself left out. */
  public PathType farthest(NodeType type) {
    PathType farthest = PathType.LOC;
    for (Node gpu : machine.gpus()) {
      for (Node node : machine.nodes(type)) {
        farthest = node == gpu ? farthest : farthest.max(path(gpu, node).type());
      }
    }
    return farthest;
  }

  /** Changes whenever a path from a node does, so that what was derived from them can be kept. */
  int version(Node from) {
    return versions[from.ordinal()];
  }

  /** The paths to a target by the ordinal of the node they start from, or null. */
  Path[] to(Node target) {
    return byTarget[target.ordinal()];
  }

  void fill(Node target, Path[] paths) {
    byTarget[target.ordinal()] = paths;
    for (int from = 0; from < versions.length; from++) {
      versions[from]++;
    }
  }

  void set(Node from, Node to, Path path) {
    Path[] paths = byTarget[to.ordinal()];
    if (paths != null) {
      paths[from.ordinal()] = path;
      versions[from.ordinal()]++;
    }
  }
}
