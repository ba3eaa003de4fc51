package org.nccl4j.topo.connect;

import java.util.Arrays;
import java.util.Comparator;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.topo.search.MachineGraphs;
import org.nccl4j.topo.system.Node;
import org.nccl4j.topo.system.NodeAttributes;

/**
 * The distribution of a communicator's ranks over its nodes. Immutable.
 *
 * @param nodes the nodes, numbered by their first rank
 * @param nRanks all ranks
 * @param rankToNode the node of each rank
 * @param minLocalRanks the ranks of the smallest node
 * @param maxLocalRanks the ranks of the largest node
 * @param minSm the least compute capability of any rank
 * @param maxSm the most
 * @param arch the CPUs' architecture, or MIXED
 * @param vendor the CPUs' vendor, or MIXED
 */
public record CommShape(
    List<NodeGraphs> nodes,
    int nRanks,
    int[] rankToNode,
    int minLocalRanks,
    int maxLocalRanks,
    int minSm,
    int maxSm,
    NodeAttributes.Arch arch,
    NodeAttributes.Vendor vendor) {

  /** Returns the number of nodes. */
  public int nNodes() {
    return nodes.size();
  }

  /** The node of a rank. */
  public NodeGraphs nodeOf(int rank) {
    return nodes.get(rankToNode[rank]);
  }

  /** The GPU of a rank. */
  public Node gpuOf(int rank) {
    NodeGraphs node = nodeOf(rank);
    return node.graphs().routes().machine().gpuOfRank(node.onMachine(rank)).orElseThrow();
  }

  /** The different machines among the nodes. */
  public List<MachineGraphs> machines() {
    Map<MachineGraphs, Boolean> seen = new IdentityHashMap<>();
    return nodes.stream()
        .map(NodeGraphs::graphs)
        .filter(graphs -> seen.put(graphs, true) == null)
        .toList();
  }

  /** The shape of a communicator over these nodes, in any order. */
  public static CommShape of(List<NodeGraphs> unordered) {
    List<NodeGraphs> nodes =
        unordered.stream().sorted(Comparator.comparingInt(CommShape::firstRank)).toList();
    int nRanks = nodes.stream().mapToInt(NodeGraphs::size).sum();
    int[] rankToNode = new int[nRanks];
    Arrays.fill(rankToNode, -1);
    int minSm = Integer.MAX_VALUE;
    int maxSm = 0;
    NodeAttributes.Cpu cpu = nodes.get(0).graphs().routes().machine().cpu();
    NodeAttributes.Arch arch = cpu.arch();
    NodeAttributes.Vendor vendor = cpu.vendor();
    for (int n = 0; n < nodes.size(); n++) {
      NodeGraphs node = nodes.get(n);
      for (Node gpu : node.graphs().routes().machine().gpus()) {
        rankToNode[node.rank(gpu.gpu().rank())] = n;
        minSm = Math.min(minSm, gpu.gpu().sm());
        maxSm = Math.max(maxSm, gpu.gpu().sm());
      }
      NodeAttributes.Cpu other = node.graphs().routes().machine().cpu();
      arch = other.arch() == arch ? arch : NodeAttributes.Arch.MIXED;
      vendor = other.vendor() == vendor ? vendor : NodeAttributes.Vendor.MIXED;
    }
    return new CommShape(
        nodes,
        nRanks,
        rankToNode,
        nodes.stream().mapToInt(NodeGraphs::size).min().orElse(0),
        nodes.stream().mapToInt(NodeGraphs::size).max().orElse(0),
        minSm,
        maxSm,
        arch,
        vendor);
  }

  private static int firstRank(NodeGraphs node) {
    return node.graphs().routes().machine().gpus().stream()
        .mapToInt(gpu -> node.rank(gpu.gpu().rank()))
        .min()
        .orElse(0);
  }
}
