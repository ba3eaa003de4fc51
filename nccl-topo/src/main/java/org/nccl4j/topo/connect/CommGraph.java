package org.nccl4j.topo.connect;

import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.IntStream;
import org.nccl4j.topo.Pattern;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.search.ChannelGraph;
import org.nccl4j.topo.search.GraphKind;
import org.nccl4j.topo.search.MachineGraphs;
import org.nccl4j.topo.system.Node;

/**
 * A communicator's connections: rings and trees over all its nodes, and its channels. Immutable.
 *
 * @param shape the ranks by node
 * @param graphs the common values of all nodes
 * @param treePattern the plainest tree shape of any node
 * @param nChannels channels for collectives
 * @param nvlsChannels channels for NVLS, or 0
 * @param peerChannels channels for send and receive in all
 * @param channelsPerPeer channels for one peer
 * @param collNet whether the network reduces
 * @param rings the rings
 * @param trees the trees
 */
public record CommGraph(
    CommShape shape,
    Map<GraphKind, AlignedGraph> graphs,
    Pattern treePattern,
    int nChannels,
    int nvlsChannels,
    int peerChannels,
    int channelsPerPeer,
    boolean collNet,
    Rings rings,
    Trees trees) {

  private static final int HOPPER = 90;
  private static final int FEW_CHANNELS = 16;

  /** GB/s per channel above which one block cannot keep a channel busy. */
  private static final float FAST_CHANNEL = 45.0f;

  /** Copies the map. */
  public CommGraph {
    graphs = Map.copyOf(graphs);
  }

  /** The agreed graph of a kind. */
  public AlignedGraph of(GraphKind kind) {
    return graphs.get(kind);
  }

  /** True if the NVSwitch reduces. */
  public boolean nvls() {
    return nvlsChannels > 0;
  }

  /** The NVLS heads of the first node, each once. */
  public List<Integer> nvlsHeads() {
    return nvlsHeads(shape.nodes().get(0));
  }

  /** The NVLS heads of a node in the order of its search, each once. */
  public List<Integer> nvlsHeads(NodeGraphs node) {
    return node.graphs().of(GraphKind.NVLS).channels().stream()
        .map(channel -> node.rank(channel.first()))
        .distinct()
        .toList();
  }

  /**
   * Connects nodes.
   *
   * @param nodes the nodes, in any order
   * @param settings limits of channels and the like
   * @param collNet whether the network can reduce
   */
  public static CommGraph connect(List<NodeGraphs> nodes, TopoSettings settings, boolean collNet) {
    CommShape shape = CommShape.of(nodes);
    Map<GraphKind, AlignedGraph> graphs = align(shape);
    int searched =
        Math.min(graphs.get(GraphKind.RING).nChannels(), graphs.get(GraphKind.TREE).nChannels());
    graphs.computeIfPresent(GraphKind.RING, (kind, graph) -> graph.withChannels(searched));
    graphs.computeIfPresent(GraphKind.TREE, (kind, graph) -> graph.withChannels(searched));
    boolean reduces =
        collNet
            && graphs.get(GraphKind.COLLNET_CHAIN).nChannels() > 0
            && shape.nNodes() >= settings.get(TopoSettings.NCCL_COLLNET_NODE_THRESHOLD);
    int[] source = channels(shape, graphs, settings, reduces, searched);
    boolean nvls = graphs.get(GraphKind.NVLS).nChannels() > 0 && nvlsEverywhere(shape);
    PeerChannels peers = new PeerChannels(shape, settings);
    int total = peers.total(source.length);
    return new CommGraph(
        shape,
        graphs,
        plainestTree(shape),
        source.length,
        nvls ? NvlsChannels.count(shape, settings) : 0,
        total,
        peers.perPeer(total),
        reduces,
        new Rings(shape, source, searched),
        new Trees(shape, source, searched));
  }

  private static boolean nvlsEverywhere(CommShape shape) {
    return shape.machines().stream().allMatch(MachineGraphs::nvlsSupported);
  }

  private static Map<GraphKind, AlignedGraph> align(CommShape shape) {
    Map<GraphKind, AlignedGraph> aligned = new EnumMap<>(GraphKind.class);
    for (GraphKind kind : GraphKind.values()) {
      List<ChannelGraph> all = new ArrayList<>();
      shape.machines().forEach(machine -> all.add(machine.of(kind)));
      aligned.put(kind, AlignedGraph.of(all));
    }
    return aligned;
  }

  private static Pattern plainestTree(CommShape shape) {
    Pattern plainest = Pattern.BALANCED_TREE;
    for (MachineGraphs machine : shape.machines()) {
      Pattern pattern = machine.of(GraphKind.TREE).pattern();
      plainest = pattern.id() > plainest.id() ? pattern : plainest;
    }
    return plainest;
  }

  /**
   * The channels: for each the searched channel it repeats, plus the count of searched channels if
   * it uses the second of the two trees.
   */
  private static int[] channels(
      CommShape shape,
      Map<GraphKind, AlignedGraph> graphs,
      TopoSettings settings,
      boolean collNet,
      int searched) {
    int most = TopoSettings.MAX_CHANNELS;
    int[] source = IntStream.range(0, Math.min(most, 2 * searched)).toArray();
    AlignedGraph chain = graphs.get(GraphKind.COLLNET_CHAIN);
    if (collNet && chain.bwIntra() > chain.bwInter() && shape.nRanks() > shape.nNodes()) {
      source = repeat(source, Math.min(most, source.length + source.length / 2));
    }
    boolean fast = graphs.get(GraphKind.RING).bwIntra() > FAST_CHANNEL;
    if (shape.minSm() >= HOPPER && shape.nNodes() > 1 && fast && source.length < FEW_CHANNELS) {
      source = repeat(source, 2 * source.length);
    }
    int kept = Math.min(Math.min(settings.maxChannels(), source.length), settings.maxCtas());
    source = IntStream.of(source).limit(Math.max(1, kept)).toArray();
    return repeat(source, Math.max(settings.minChannels(), settings.minCtas()));
  }

  private static int[] repeat(int[] source, int length) {
    int wanted = Math.min(TopoSettings.MAX_CHANNELS, Math.max(source.length, length));
    return IntStream.range(0, wanted).map(c -> source[c % source.length]).toArray();
  }

  /**
   * The network by which a rank leaves its node for another rank, if they are neighbours in a ring
   * or tree.
   */
  public Optional<Node> egress(int rank, int peer) {
    return rings.egress(rank, peer).or(() -> trees.egress(rank, peer));
  }
}
