package org.nccl4j.topo.connect;

import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;
import org.nccl4j.topo.DoubleBinaryTree;
import org.nccl4j.topo.Pattern;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.search.GraphKind;
import org.nccl4j.topo.system.Node;

/**
 * Double binary trees over the nodes, chains within them. Computed on demand: a tree over 100,000
 * ranks takes no memory. Immutable.
 */
public final class Trees {
  private static final int ARITY = 3;

  private final CommShape shape;
  private final int[] source;
  private final int searched;

  Trees(CommShape shape, int[] source, int searched) {
    this.shape = shape;
    this.source = source;
    this.searched = searched;
  }

  /**
   * A rank's place in a channel's tree.
   *
   * @param up the parent, or -1
   * @param down the three children, or -1 each
   */
  public record Place(int up, int[] down) {}

  /** A rank's place in a channel's tree. */
  public Place place(int rank, int channel) {
    int base = source[channel] % searched;
    int tree = source[channel] / searched;
    int node = shape.rankToNode()[rank];
    NodeGraphs here = shape.nodes().get(node);
    int step = step(here, base, rank);
    int[] down = new int[ARITY];
    Arrays.fill(down, -1);
    int up = step == 0 ? -1 : here.rank(GraphKind.TREE, base, step - 1);
    if (step < here.size() - 1) {
      down[0] = here.rank(GraphKind.TREE, base, step + 1);
    }
    DoubleBinaryTree.Place place = DoubleBinaryTree.place(shape.nNodes(), node, tree);
    if (step == 0 && place.up() != DoubleBinaryTree.NONE) {
      up = parent(node, place.up(), tree, base);
    }
    if (step == childStep(here, 0)) {
      addChild(down, place.down0(), base);
    }
    if (step == childStep(here, 1)) {
      addChild(down, place.down1(), base);
    }
    return new Place(up, down);
  }

  /** The network by which a rank leaves its node in the first tree where it is next to another. */
  Optional<Node> egress(int rank, int peer) {
    NodeGraphs here = shape.nodeOf(rank);
    for (int c = 0; c < source.length; c++) {
      Place place = place(rank, c);
      if (place.up() == peer || IntStream.of(place.down()).anyMatch(down -> down == peer)) {
        int base = source[c] % searched;
        List<Node> nets = here.channel(GraphKind.TREE, base).nets();
        return nets.isEmpty()
            ? Optional.empty()
            : Optional.of(nets.get(step(here, base, rank) == 0 ? 0 : 1));
      }
    }
    return Optional.empty();
  }

  private static int step(NodeGraphs node, int channel, int rank) {
    return node.channel(GraphKind.TREE, channel).ranks().indexOf(node.onMachine(rank));
  }

  /** At which step of a node's chain its first or second child hangs. */
  private static int childStep(NodeGraphs node, int child) {
    Pattern pattern = node.graphs().of(GraphKind.TREE).pattern();
    if (child == 0) {
      return pattern == Pattern.TREE ? 0 : 1;
    }
    return pattern == Pattern.SPLIT_TREE ? 1 : 0;
  }

  private int parent(int node, int parentNode, int tree, int channel) {
    DoubleBinaryTree.Place above = DoubleBinaryTree.place(shape.nNodes(), parentNode, tree);
    NodeGraphs parent = shape.nodes().get(parentNode);
    int child = above.down0() == node ? 0 : 1;
    return parent.rank(GraphKind.TREE, channel, childStep(parent, child));
  }

  private void addChild(int[] down, int childNode, int channel) {
    if (childNode == DoubleBinaryTree.NONE) {
      return;
    }
    int free = 0;
    while (free < ARITY && down[free] >= 0) {
      free++;
    }
    if (free == ARITY) {
      throw new TopologyException(
          "no tree can be made",
          "channel " + channel,
          "a rank has more than three children",
          "report it with the topology file");
    }
    down[free] = shape.nodes().get(childNode).rank(GraphKind.TREE, channel, 0);
  }
}
