package org.nccl4j.api.init.topology;

import java.lang.System.Logger;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.IntStream;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.init.peers.HostLayout;
import org.nccl4j.api.init.peers.InitRequest;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.kernel.Tree;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.cluster.ClusterOptions;
import org.nccl4j.topo.cluster.CommTopology;
import org.nccl4j.topo.connect.CommGraph;
import org.nccl4j.topo.connect.EgressRoutes;
import org.nccl4j.topo.connect.Trees;
import org.nccl4j.topo.path.PeerStatus;
import org.nccl4j.topo.search.GraphKind;

/**
 * The order of ranks in each channel's ring, and a rank's places in the trees. All ranks have the
 * same rings and trees.
 *
 * @param rings all ranks, a list for each channel
 * @param trees this rank's places; trees of one channel follow each other, and each takes half
 * @param topology in which the rings were searched; empty if they are in the order of ranks
 */
public record ChannelGraphs(List<int[]> rings, List<Tree> trees, Optional<CommTopology> topology) {
  private static final Logger LOG = DebugLog.of("GRAPH");

  /** Rings of searches, which the ranks of this process share. */
  private static final RecentResults<CommTopology, List<int[]>> RINGS = new RecentResults<>();

  /** Digests of all ranks' parents in trees of searches, likewise. */
  private static final RecentResults<CommTopology, Integer> PARENTS = new RecentResults<>();

  /** Settings that the planner reads itself, with algorithms that NCCL does not have. */
  public static final Set<String> PLANNERS =
      Set.of(Settings.NCCL_ALGO.name(), Settings.NCCL_PROTO.name());

  /**
   * Searches the machines of all ranks and agrees on rings, trees and costs; collective.
   *
   * @throws InvalidUsageException if a topology or graph file that the user named is wrong, or if
   *     ranks come to different results
   */
  public static ChannelGraphs of(
      InitRequest request, TopologyExchange survey, HostLayout hosts, Bootstrap bootstrap) {
    ChannelGraphs graphs = plain(hosts, bootstrap.rank());
    if (survey.hosts().isEmpty()) {
      graphs.tellOrder(request, bootstrap.rank());
      return graphs;
    }
    TopologyDump dump = new TopologyDump(request.settings(), bootstrap.rank());
    dump.machine(survey);
    if (survey.graphs()) {
      try {
        CommTopology topology = topology(request.settings(), survey);
        dump.graphs(topology);
        graphs = graphs.along(topology, bootstrap.rank());
      } catch (TopologyException e) {
        refuse(request.settings(), e);
      }
    } else {
      dump.noGraphs();
    }
    graphs.tell(request, bootstrap.rank());
    graphs.agree(bootstrap);
    return graphs;
  }

  /**
   * Rings and trees of some of the ranks of a communicator, whose machines are known: all find the
   * same without asking each other.
   *
   * @param first the settings that the ranks of the communicator have agreed on
   * @param survey of these ranks
   */
  public static ChannelGraphs among(
      InitRequest request, Settings first, TopologyExchange survey, HostLayout hosts, int rank) {
    ChannelGraphs graphs = plain(hosts, rank);
    if (!survey.graphs()) {
      graphs.tellOrder(request, rank);
      return graphs;
    }
    try {
      graphs = graphs.along(topology(first, survey), rank);
    } catch (TopologyException e) {
      warn(e);
    }
    graphs.tell(request, rank);
    return graphs;
  }

  /**
   * The graphs of a communicator that has a rank on each of some GPUs of this machine.
   *
   * @param peers these ranks
   * @throws InvalidUsageException as {@link #of} does
   */
  public static ChannelGraphs ahead(
      List<CudaDevice> gpus, List<PeerInfo> peers, Settings settings) {
    ChannelGraphs graphs = plain(HostLayout.of(peers), 0);
    try {
      return graphs.along(topology(settings, TopologyExchange.ahead(gpus, settings)), 0);
    } catch (TopologyException e) {
      refuse(settings, e);
      return graphs;
    }
  }

  /** Throws if the user has named a file; else warns. */
  private static void refuse(Settings settings, TopologyException e) {
    if (settings.isSet(Settings.NCCL_TOPO_FILE) || settings.isSet(Settings.NCCL_GRAPH_FILE)) {
      throw new InvalidUsageException(ErrorId.TOPOLOGY, e.problem(), e.remedy(), e);
    }
    warn(e);
  }

  /**
   * Searched once for all ranks of the process. Drivers' answers about peer access are in the
   * machines.
   */
  static CommTopology topology(Settings settings, TopologyExchange survey) {
    Map<String, String> texts = settings.texts();
    texts.keySet().removeAll(PLANNERS);
    return TopologyCache.of(
        survey,
        texts,
        () ->
            CommTopology.of(
                survey.hosts(),
                new ClusterOptions(
                    settings.topology().without(PLANNERS), PeerStatus.ALLOWED, false)));
  }

  /** Does in advance what every rank does with the topology, so that the code has run. */
  static void ahead(CommTopology topology) {
    topology.digest();
    ChannelGraphs graphs =
        new ChannelGraphs(List.of(new int[0]), List.of(), Optional.empty()).along(topology, 0);
    graphs.nvlsHeads();
    graphs.nvlsChannels();
  }

  private static void warn(TopologyException e) {
    LOG.log(
        Logger.Level.WARNING,
        "The topology search found no rings; the rings are in the order of ranks: {0}",
        e.getMessage());
  }

  private void tell(InitRequest request, int rank) {
    LOG.log(
        request.logLevel("INIT", "GRAPH"),
        "rank {0}: {1} rings by {2}, the first {3}",
        rank,
        rings.size(),
        topology.isPresent() ? "the search of the topology" : "the ranks' order",
        Arrays.toString(rings.get(0)));
  }

  /** The same of a ring without a search, unless it is in the order of ranks. */
  private void tellOrder(InitRequest request, int rank) {
    if (!Arrays.equals(rings.get(0), IntStream.range(0, rings.get(0).length).toArray())) {
      LOG.log(
          request.logLevel("INIT", "GRAPH"),
          "rank {0}: the ring goes by host, NUMA node and last cache: {1}",
          rank,
          Arrays.toString(rings.get(0)));
    }
  }

  /** Returns the graphs that follow from the ranks' hosts alone. */
  static ChannelGraphs plain(HostLayout hosts, int rank) {
    return new ChannelGraphs(
        List.of(hosts.ring()), List.of(hosts.tree(rank, 0), hosts.tree(rank, 1)), Optional.empty());
  }

  /**
   * Rings of the graph, and its trees: double binary ones over nodes with chains within. Between
   * GPUs of one node that all have NVLinks to each other a chain is only a longer way; there the
   * trees over ranks stay.
   */
  private ChannelGraphs along(CommTopology searched, int rank) {
    CommGraph comm = searched.comm();
    List<int[]> order = RINGS.of(searched, () -> rings(comm));
    ChannelGraphs found = new ChannelGraphs(order, trees, Optional.of(searched));
    return found.isByNvlink()
        ? found
        : new ChannelGraphs(order, treesOf(comm, rank), found.topology);
  }

  private static List<int[]> rings(CommGraph comm) {
    return IntStream.range(0, comm.nChannels()).mapToObj(comm.rings()::order).toList();
  }

  /** True if the search found all ranks on one node, and NVLinks between all of its GPUs. */
  public boolean isByNvlink() {
    return topology
        .map(CommTopology::comm)
        .filter(comm -> comm.shape().nNodes() == 1)
        .filter(comm -> comm.of(GraphKind.TREE).typeIntra().within(PathType.NVL))
        .isPresent();
  }

  private static List<Tree> treesOf(CommGraph comm, int rank) {
    List<Tree> trees = new ArrayList<>();
    int searched = comm.of(GraphKind.TREE).nChannels();
    for (int c = 0; c < Math.min(searched, comm.nChannels()); c++) {
      trees.add(tree(comm.trees(), rank, c));
      int second = c + searched;
      trees.add(tree(comm.trees(), rank, second < comm.nChannels() ? second : c));
    }
    return List.copyOf(trees);
  }

  private static Tree tree(Trees trees, int rank, int channel) {
    Trees.Place place = trees.place(rank, channel);
    return new Tree(
        place.up(),
        IntStream.of(place.down()).filter(d -> d >= 0).boxed().toList(),
        each -> trees.place(each, channel).up());
  }

  /**
   * NVLS's heads of all nodes, in the order of each node's search; none where there was no search
   * or it found no NVSwitch.
   */
  public List<Integer> nvlsHeads() {
    return topology.map(CommTopology::comm).filter(CommGraph::nvls).stream()
        .flatMap(comm -> comm.shape().nodes().stream().map(comm::nvlsHeads))
        .flatMap(List::stream)
        .toList();
  }

  /** Returns the network cards through which data leave hosts; empty where there was no search. */
  public Optional<EgressRoutes> egress(Settings settings) {
    return topology.map(found -> new EgressRoutes(found.comm(), settings.topology()));
  }

  /** Channels that the search gives NVLS, or 0. */
  public int nvlsChannels() {
    return topology.map(found -> found.comm().nvlsChannels()).orElse(0);
  }

  /** The ranks before and after a rank in the rings, and above and below this rank in the trees. */
  public Set<Integer> neighbours(int rank) {
    Set<Integer> neighbours = new TreeSet<>();
    for (int[] ring : rings) {
      int at = 0;
      while (ring[at] != rank) {
        at++;
      }
      neighbours.add(ring[(at + 1) % ring.length]);
      neighbours.add(ring[(at + ring.length - 1) % ring.length]);
    }
    trees.forEach(tree -> neighbours.addAll(tree.neighbours()));
    neighbours.remove(rank);
    return neighbours;
  }

  /** Ranks that would go different ways, because their settings differ, must not start. */
  private void agree(Bootstrap bootstrap) {
    int way = 31 * rings.size() + nvlsHeads().hashCode();
    for (int[] ring : rings) {
      way = 31 * way + Arrays.hashCode(ring);
    }
    int parents = parents();
    int cost = topology.map(CommTopology::digest).orElse(0);
    byte[] mine = ByteBuffer.allocate(12).putInt(way).putInt(parents).putInt(cost).array();
    List<byte[]> all = bootstrap.allGather(mine);
    for (int rank = 0; rank < all.size(); rank++) {
      if (!Arrays.equals(all.get(rank), mine)) {
        ByteBuffer theirs = ByteBuffer.wrap(all.get(rank));
        String different =
            theirs.getInt() != way
                ? "rings"
                : theirs.getInt() != parents ? "trees" : "costs of collectives";
        throw new InvalidUsageException(
            ErrorId.SETTINGS_DIFFER,
            "ranks %d and %d find different %s".formatted(bootstrap.rank(), rank, different),
            "give all ranks the same NCCL_ settings, such as NCCL_GRAPH_FILE and NCCL_CROSS_NIC");
      }
    }
  }

  /** A digest of all ranks' parents in searched trees; 0 for trees over the ranks' hosts. */
  private int parents() {
    return topology
        .filter(found -> !isByNvlink())
        .map(found -> PARENTS.of(found, () -> parents(found.comm())))
        .orElse(0);
  }

  private static int parents(CommGraph comm) {
    int parents = 1;
    for (int rank = 0; rank < comm.shape().nRanks(); rank++) {
      for (int c = 0; c < comm.nChannels(); c++) {
        parents = 31 * parents + comm.trees().place(rank, c).up();
      }
    }
    return parents;
  }
}
