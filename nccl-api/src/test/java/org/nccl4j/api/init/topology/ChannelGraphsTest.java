package org.nccl4j.api.init.topology;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Devices;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.bootstrap.LocalBootstrap;
import org.nccl4j.api.init.peers.HostLayout;
import org.nccl4j.api.init.peers.InitRequest;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;
import org.nccl4j.device.kernel.Tree;
import org.nccl4j.topo.cluster.CommTopology;
import org.nccl4j.topo.search.GraphFile;
import org.nccl4j.topo.search.GraphKind;
import org.nccl4j.topo.xml.TopologyXml;
import org.nccl4j.topo.xml.XmlElement;

/** Rings and trees: where no topology is asked, and where ranks find different ones. */
class ChannelGraphsTest {
  private static List<PeerInfo> peers(String... hosts) {
    List<PeerInfo> peers = new ArrayList<>();
    for (String host : hosts) {
      peers.add(
          new PeerInfo(peers.size(), host, "ns", "p", 0, Device.Kind.HOST, "host", List.of()));
    }
    return peers;
  }

  @Test
  void ringsFinishAHostBeforeTheNext() {
    ChannelGraphs graphs = ChannelGraphs.plain(HostLayout.of(peers("a", "b", "a", "c", "b")), 0);
    assertEquals(1, graphs.rings().size());
    assertArrayEquals(new int[] {0, 2, 1, 4, 3}, graphs.rings().get(0));
  }

  @Test
  void treesOfAllRanksAgree() {
    List<PeerInfo> peers = peers("a", "b", "a", "c", "b", "b", "a");
    for (int which = 0; which < 2; which++) {
      int roots = 0;
      for (int rank = 0; rank < peers.size(); rank++) {
        Tree tree = ChannelGraphs.plain(HostLayout.of(peers), rank).trees().get(which);
        roots += tree.up() < 0 ? 1 : 0;
        for (int child : tree.down()) {
          assertEquals(
              rank, ChannelGraphs.plain(HostLayout.of(peers), child).trees().get(which).up());
        }
      }
      assertEquals(1, roots);
    }
  }

  /** The same edges, with every rank on top: all ranks find the same tree, and reach its root. */
  @ParameterizedTest
  @ValueSource(strings = {"aa", "ab", "aab", "abacbba", "aaaabbbb", "abcdefghi", "aaaaaaabc"})
  void treesOfEveryRootAgree(String hosts) {
    List<PeerInfo> peers = peers(hosts.split(""));
    for (int which = 0; which < 2; which++) {
      for (int root = 0; root < peers.size(); root++) {
        List<Tree> places = new ArrayList<>();
        int edges = 0;
        for (int rank = 0; rank < peers.size(); rank++) {
          Tree own = ChannelGraphs.plain(HostLayout.of(peers), rank).trees().get(which);
          Tree place = own.from(rank, root);
          assertEquals(Set.copyOf(own.neighbours()), Set.copyOf(place.neighbours()));
          assertEquals(
              place.down().size() + (rank == root ? 0 : 1),
              place.neighbours().size(),
              "the parent");
          edges += place.down().size();
          places.add(place);
        }
        assertEquals(peers.size() - 1, edges);
        for (int rank = 0; rank < peers.size(); rank++) {
          int steps = 0;
          for (int at = rank; at != root; at = places.get(at).up()) {
            assertTrue(places.get(places.get(at).up()).down().contains(at));
            assertTrue(steps++ < peers.size(), "a cycle above " + rank);
          }
        }
        assertEquals(-1, places.get(root).up());
      }
    }
  }

  /** Rank 0's graph file has the GPUs of the first tree in another order. */
  @Test
  void ranksWithDifferentTreesAreRefused(@TempDir Path folder) throws IOException {
    Path file = folder.resolve("graphs.xml");
    CommTopology found = graphs(Map.of(), Map.of()).topology().orElseThrow();
    XmlElement graphs = GraphFile.write(found.nodeOf(0).graphs());
    Files.writeString(file, TopologyXml.write(graphs));
    assertEquals(
        List.of(GraphKind.TREE.id()),
        graphs.children().stream()
            .filter(graph -> graph.requireInt("id") == GraphKind.TREE.id())
            .peek(ChannelGraphsTest::reverse)
            .map(graph -> graph.requireInt("id"))
            .toList());
    Path other = folder.resolve("other.xml");
    Files.writeString(other, TopologyXml.write(graphs));
    Map<String, String> same = Map.of("NCCL_GRAPH_FILE", file.toString());
    graphs(same, same);
    CompletionException e =
        assertThrows(
            CompletionException.class,
            () -> graphs(Map.of("NCCL_GRAPH_FILE", other.toString()), same));
    assertTrue(e.getCause().getMessage().contains("find different trees"), e.toString());
  }

  private static void reverse(XmlElement graph) {
    for (XmlElement channel : graph.children()) {
      for (XmlElement gpu : List.copyOf(channel.children())) {
        channel.remove(gpu);
        channel.add(0, gpu);
      }
    }
  }

  /** Rank 0's graphs among four ranks of a file's machine. */
  private static ChannelGraphs graphs(Map<String, String> ofFirst, Map<String, String> ofOthers) {
    List<PeerInfo> peers = peers("a", "a", "a", "a");
    List<Bootstrap> bootstraps = LocalBootstrap.create(4, Duration.ofMinutes(5));
    ExecutorService threads = Executors.newFixedThreadPool(4);
    try {
      List<CompletableFuture<ChannelGraphs>> finding = new ArrayList<>();
      for (Bootstrap bootstrap : bootstraps) {
        Map<String, String> texts = new HashMap<>(bootstrap.rank() == 0 ? ofFirst : ofOthers);
        texts.put(
            "NCCL_TOPO_FILE",
            "../nccl-topo/src/test/resources/org/nccl4j/topo/machines/pcie-8-amd.xml");
        InitRequest request = new InitRequest("trees", Devices.host(), Settings.alone(texts));
        finding.add(
            CompletableFuture.supplyAsync(
                () ->
                    ChannelGraphs.of(
                        request,
                        TopologyExchange.of(request, peers, HostNics.UNKNOWN, bootstrap),
                        HostLayout.of(peers),
                        bootstrap),
                threads));
      }
      return finding.stream().map(CompletableFuture::join).toList().get(0);
    } finally {
      threads.shutdownNow();
      bootstraps.forEach(Bootstrap::close);
    }
  }
}
