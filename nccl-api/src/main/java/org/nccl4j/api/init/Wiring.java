package org.nccl4j.api.init;

import java.lang.System.Logger;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.cuda.Nvml;
import org.nccl4j.device.kernel.Tree;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.cluster.ClusterOptions;
import org.nccl4j.topo.cluster.Fleet;
import org.nccl4j.topo.connect.CommGraph;
import org.nccl4j.topo.connect.Trees;
import org.nccl4j.topo.path.PeerStatus;
import org.nccl4j.topo.search.GraphKind;

/**
 * The way around the ranks of each channel's ring, and a rank's places in the trees. All ranks have
 * the same rings and trees.
 *
 * @param rings all ranks, a list for each channel
 * @param trees this rank's places; trees of one channel follow each other, and each takes half
 */
record Wiring(List<int[]> rings, List<Tree> trees) {
  private static final Logger LOG = System.getLogger("org.nccl4j.GRAPH");

  /**
   * Finds out what the machines are and agrees on rings and trees; collective.
   *
   * @throws InvalidUsageException if a topology or graph file that the user named is wrong, or if
   *     ranks come to different results
   */
  static Wiring of(InitRequest request, List<PeerInfo> peers, Bootstrap bootstrap) {
    MachineFacts mine = MachineFacts.of(request.device(), request.settings());
    MachineSurvey survey = MachineSurvey.of(request.settings(), mine, peers, bootstrap);
    if (survey.hosts().isEmpty()) {
      return plain(peers, bootstrap.rank());
    }
    TopologyDump dump = new TopologyDump(request.settings(), bootstrap.rank());
    dump.machine(survey);
    Wiring wiring = plain(peers, bootstrap.rank());
    String source = "the ranks' order";
    if (survey.graphs()) {
      TopoSettings settings = new TopoSettings(request.settings().texts());
      try {
        Fleet fleet = Fleet.of(survey.hosts(), new ClusterOptions(settings, driver(mine), false));
        dump.graphs(fleet);
        wiring = wiring.along(fleet.comm(), bootstrap.rank());
        source = "the search of the topology";
      } catch (TopologyException e) {
        if (mine.fromFile() || settings.text("NCCL_GRAPH_FILE").isPresent()) {
          throw new InvalidUsageException(e.getMessage(), e.remedy(), e);
        }
        LOG.log(
            Logger.Level.WARNING,
            "The topology gives no rings; they follow the ranks instead. {0}",
            e.getMessage());
      }
    } else {
      dump.noGraphs();
    }
    LOG.log(
        request.logLevel("INIT", "GRAPH"),
        "rank {0}: {1} rings by {2}, the first {3}",
        bootstrap.rank(),
        wiring.rings.size(),
        source,
        Arrays.toString(wiring.rings.get(0)));
    wiring.agree(bootstrap);
    return wiring;
  }

  private static PeerStatus driver(MachineFacts mine) {
    Nvml nvml = mine.gpu().isPresent() ? Nvml.probe() : null;
    return nvml == null ? PeerStatus.ALLOWED : nvml::allowsPeers;
  }

  /** By the ranks' hosts alone. */
  static Wiring plain(List<PeerInfo> peers, int rank) {
    Hosts hosts = Hosts.of(peers);
    return new Wiring(List.of(hosts.ring()), List.of(hosts.tree(rank, 0), hosts.tree(rank, 1)));
  }

  /**
   * Rings of the graph, and its trees: double binary ones over nodes with chains within. Between
   * GPUs of one node that all have NVLinks to each other a chain is only a longer way; there the
   * trees over ranks stay.
   */
  private Wiring along(CommGraph comm, int rank) {
    List<int[]> order = new ArrayList<>();
    for (int c = 0; c < comm.nChannels(); c++) {
      order.add(comm.rings().order(c));
    }
    PathType within = comm.of(GraphKind.TREE).typeIntra();
    boolean flat = comm.shape().nNodes() == 1 && within.within(PathType.NVL);
    return new Wiring(order, flat ? trees : treesOf(comm, rank));
  }

  private static List<Tree> treesOf(CommGraph comm, int rank) {
    List<Tree> trees = new ArrayList<>();
    int searched = comm.of(GraphKind.TREE).nChannels();
    for (int c = 0; c < Math.min(searched, comm.nChannels()); c++) {
      trees.add(tree(comm.trees().place(rank, c)));
      int second = c + searched;
      trees.add(tree(comm.trees().place(rank, second < comm.nChannels() ? second : c)));
    }
    return List.copyOf(trees);
  }

  private static Tree tree(Trees.Place place) {
    return new Tree(place.up(), IntStream.of(place.down()).filter(d -> d >= 0).boxed().toList());
  }

  /** Ranks that would go different ways, because their settings differ, must not start. */
  private void agree(Bootstrap bootstrap) {
    int hash = rings.size();
    for (int[] ring : rings) {
      hash = 31 * hash + Arrays.hashCode(ring);
    }
    List<byte[]> all = bootstrap.allGather(ByteBuffer.allocate(4).putInt(hash).array());
    for (int rank = 0; rank < all.size(); rank++) {
      if (ByteBuffer.wrap(all.get(rank)).getInt() != hash) {
        throw new InvalidUsageException(
            "ranks %d and %d find different rings".formatted(bootstrap.rank(), rank),
            "give all ranks the same NCCL_ settings, such as NCCL_GRAPH_FILE and NCCL_CROSS_NIC");
      }
    }
  }
}
