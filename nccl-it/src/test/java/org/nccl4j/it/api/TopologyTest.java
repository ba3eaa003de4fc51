package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.topo.detect.NetworkScan;
import org.nccl4j.topo.detect.SysFiles;

/** Communicators along a topology file, and the files that they write. */
@Timeout(600)
class TopologyTest {
  private static final int N = 5000;

  @TempDir private Path folder;
  private Path file;

  /** Four GPUs whose NVLinks make the ring 0 2 1 3. */
  @BeforeEach
  void machine() throws IOException {
    StringBuilder text =
        new StringBuilder(
            "<system version=\"1\">\n<cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\">\n");
    int[][] peers = {{2, 3}, {2, 3}, {0, 1}, {0, 1}};
    for (int gpu = 0; gpu < peers.length; gpu++) {
      text.append(
          "<pci busid=\"0000:1%d:00.0\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\""
                  .formatted(gpu)
              + " link_width=\"16\"><gpu dev=\"%d\" sm=\"80\" rank=\"%d\" gdr=\"1\">"
                  .formatted(gpu, gpu));
      for (int peer : peers[gpu]) {
        text.append(
            "<nvlink target=\"0000:1%d:00.0\" count=\"2\" tclass=\"0x030200\"/>".formatted(peer));
      }
      text.append("</gpu></pci>\n");
    }
    file = Files.writeString(folder.resolve("four.xml"), text + "</cpu>\n</system>\n");
  }

  private CommunicatorConfig config() {
    return CommunicatorConfig.defaults().with("NCCL_TOPO_FILE", file.toString());
  }

  private static void allReduces(CommunicatorConfig config, int n) throws Exception {
    try (Ranks ranks = new Ranks(n, config)) {
      ranks.run((comm, stream) -> sums(comm, stream));
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"Ring", "Tree"})
  void operationsAreRightAlongItsRingsAndTrees(String algorithm) throws Exception {
    for (int n : new int[] {1, 3, 4}) {
      allReduces(config().with("NCCL_ALGO", algorithm), n);
    }
  }

  /** On the parent's connections, in another order, and along rings of the search. */
  @Test
  void splitsFollowTheTopologyToo() throws Exception {
    try (Ranks ranks = new Ranks(4, config().with("NCCL_ALGO", "Ring,Tree"))) {
      ranks.run(
          (comm, stream) -> {
            try (Communicator half = comm.split(comm.rank() / 2, -comm.rank()).orElseThrow();
                Communicator turned = comm.split(0, -comm.rank()).orElseThrow();
                Communicator again = turned.split(turned.rank() % 3, 0).orElseThrow()) {
              for (Communicator each : List.of(half, turned, again)) {
                sums(each, stream);
              }
            }
          });
    }
  }

  private static void sums(Communicator comm, DeviceStream stream) {
    int n = comm.nRanks();
    try (DeviceMemory data = Ranks.floats(N, i -> comm.rank() + i % 7)) {
      comm.allReduce(data, data, N, DataType.FLOAT32, RedOp.SUM, stream);
      stream.synchronize();
      float[] expected = new float[N];
      for (int i = 0; i < N; i++) {
        expected[i] = n * (n - 1) / 2f + n * (i % 7);
      }
      assertArrayEquals(expected, Ranks.floats(data));
    }
  }

  @Test
  void graphsAreWrittenAndReadBack() throws Exception {
    Path graphs = folder.resolve("graphs.xml");
    allReduces(config().with("NCCL_GRAPH_DUMP_FILE", graphs.toString()), 4);
    String written = Files.readString(graphs);
    // Around the NVLinks one way or the other.
    assertTrue(
        ring(written).matches("0 2 1 3|0 3 1 2|1 2 0 3|1 3 0 2|2 0 3 1|2 1 3 0|3 0 2 1|3 1 2 0"),
        ring(written));
    // Other rings, given as a file: GPUs 0 and 1 change places.
    String swapped =
        written
            .replace("dev=\"0\" rank=\"0\"", "?")
            .replace("dev=\"0x1\" rank=\"1\"", "dev=\"0\" rank=\"0\"")
            .replace("?", "dev=\"0x1\" rank=\"1\"");
    Path given = Files.writeString(folder.resolve("given.xml"), swapped);
    Path again = folder.resolve("again.xml");
    CommunicatorConfig reading =
        config()
            .with("NCCL_GRAPH_FILE", given.toString())
            .with("NCCL_GRAPH_DUMP_FILE", again.toString())
            .with("NCCL_GRAPH_DUMP_FILE_RANK", "3");
    allReduces(reading, 4);
    assertEquals(swapped, Files.readString(again));
  }

  /** The first ring's ranks. */
  private static String ring(String graphs) {
    String channel = graphs.substring(graphs.indexOf("<channel>"), graphs.indexOf("</channel>"));
    return channel
        .replaceAll("(?s)<gpu dev=\"[^\"]*\" rank=\"([0-9]+)\"/>", "$1")
        .replaceAll("[^0-9]+", " ")
        .strip();
  }

  @Test
  void topologiesAreWrittenByTheRankThatIsAsked() throws Exception {
    Path dump = folder.resolve("dump.xml");
    CommunicatorConfig asked = config().with("NCCL_TOPO_DUMP_FILE", dump.toString());
    allReduces(asked.with("NCCL_TOPO_DUMP_FILE_RANK", "2"), 2);
    assertFalse(Files.exists(dump));
    allReduces(asked.with("NCCL_TOPO_DUMP_FILE_RANK", "1"), 2);
    String written = Files.readString(dump);
    assertTrue(written.contains("dev=\"1\" sm=\"80\" rank=\"1\""), written);
    assertFalse(written.contains("rank=\"2\""), written);
    // Without a file it is this machine, which has at least a CPU or is empty.
    allReduces(CommunicatorConfig.defaults().with("NCCL_TOPO_DUMP_FILE", dump.toString()), 2);
    assertTrue(Files.readString(dump).startsWith("<system version=\"1\""));
  }

  /** Such a file was refused for several hosts; NCCL adds the machine's own networks to it. */
  @Test
  void ranksOfSeveralHostsNeedNoNetworksInTheFile() throws Exception {
    assumeTrue(
        !NetworkScan.of(new SysFiles(Path.of("/"))).isEmpty(),
        "this machine has no interface that is up besides lo");
    Path dump = folder.resolve("dump.xml");
    CommunicatorConfig config = config().with("NCCL_TOPO_DUMP_FILE", dump.toString());
    try (Ranks ranks = Ranks.onHosts("aabb", config)) {
      ranks.run((comm, stream) -> sums(comm, stream));
    }
    String written = Files.readString(dump);
    assertTrue(written.contains("<net "), written);
    assertTrue(written.contains("<gpu "), written);
  }

  @Test
  void filesThatDoNotFitAreRefused() throws Exception {
    refused(config(), 5, "has 4 GPUs for 5 ranks");
    Path bad = Files.writeString(folder.resolve("bad.xml"), "<system version=\"7\"/>");
    refused(config().with("NCCL_TOPO_FILE", bad.toString()), 2, "bad.xml:1");
    refused(config().with("NCCL_GRAPH_FILE", bad.toString()), 2, "bad.xml:1");
    Path nowhere = folder.resolve("no/such/folder.xml");
    for (String file : List.of("NCCL_TOPO_FILE", "NCCL_GRAPH_FILE")) {
      refused(config().with(file, nowhere.toString()), 2, file + "=" + nowhere);
    }
    refused(config().with("NCCL_TOPO_DUMP_FILE", nowhere.toString()), 2, "NCCL_TOPO_DUMP_FILE");
  }

  @Test
  void aFileThatOneRankAloneCannotReadIsRefusedOnAllRanks() {
    UniqueId id = UniqueId.create();
    CommunicatorConfig[] configs = {
      CommunicatorConfig.defaults(),
      CommunicatorConfig.defaults().with("NCCL_TOPO_FILE", folder.resolve("absent.xml").toString())
    };
    List<CompletableFuture<Communicator>> ranks = new ArrayList<>();
    for (int rank = 0; rank < configs.length; rank++) {
      ranks.add(Communicator.initRankAsync(2, id, rank, Devices.host(), configs[rank]));
    }
    for (CompletableFuture<Communicator> rank : ranks) {
      ExecutionException e =
          assertThrows(ExecutionException.class, () -> rank.get(300, TimeUnit.SECONDS));
      assertTrue(e.getCause().getMessage().contains("absent.xml"), e::toString);
      assertTrue(e.getCause().getMessage().contains("NCCL_TOPO_FILE"), e::toString);
    }
  }

  private static void refused(CommunicatorConfig config, int n, String why) {
    NcclException e = assertThrows(NcclException.class, () -> new Ranks(n, config).close());
    assertTrue(e.getMessage().contains(why), e.getMessage());
  }
}
