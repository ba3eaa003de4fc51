package org.nccl4j.it.perf.rank;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.RedOp;
import org.nccl4j.it.perf.workload.Cell;
import org.nccl4j.it.perf.workload.Workload;
import org.nccl4j.it.run.Placement;

/**
 * Operations of GPUs over the network, on this machine's loopback: all ranks as hosts of their own,
 * and as two hosts with NVLink within. Each on fresh data in poisoned buffers, compared with what
 * the host computes.
 */
@Tag("gpu")
@Tag("two-gpus")
@Timeout(600)
class NetGpuTest {
  private static final int MOST_BYTES = 8 << 20;
  private static final long SEED = Long.getLong("nccl4j.seed", 1);

  private final int gpus = Devices.cuda().list().size();

  /** Processes that take each other for ranks of such hosts. */
  private Ranks start(List<String> hosts, Map<String, String> settings) {
    return start(hosts, settings, MOST_BYTES);
  }

  private Ranks start(List<String> hosts, Map<String, String> settings, int mostBytes) {
    Placement placement = new Placement(hosts, List.of("env", "NCCL_HOSTID={host}"));
    RankSpec spec = new RankSpec(0, gpus, 1, mostBytes, Device.Kind.CUDA, "", RegistrationMode.NOT);
    PrintWriter err = new PrintWriter(System.out, true, StandardCharsets.UTF_8);
    Ranks ranks = ProcessRanks.start(spec, placement, err);
    String id =
        ((Reply.Text) ranks.one(0, new Command.CreateId(Library.OURS), RandomCells.PATIENCE))
            .text();
    Map<String, String> all = new HashMap<>(settings);
    all.put("NCCL_SOCKET_IFNAME", "lo");
    for (Reply answer :
        ranks.all(
            new Command.Join(id, all, List.of(), 20, CoreBinding.Time.NEVER),
            RandomCells.PATIENCE)) {
      System.out.println(((Reply.Joined) answer).transports());
    }
    return ranks;
  }

  /** Every workload equally often. */
  private void operations(Ranks ranks, int rounds) {
    System.out.println("seed " + SEED);
    Random random = new Random(SEED);
    for (int i = 0; i < rounds; i++) {
      for (Workload workload : Workload.values()) {
        if (workload.refusal(gpus).isEmpty()) {
          RandomCells.check(ranks, RandomCells.next(random, workload, gpus, MOST_BYTES), i);
        }
      }
    }
  }

  @Test
  void eachRankAHostWithFourChannels() {
    List<String> hosts = List.of("a", "b", "c", "d", "e", "f", "g", "h").subList(0, gpus);
    try (Ranks ranks = start(hosts, Map.of("NCCL_NCHANNELS_PER_NET_PEER", "4"))) {
      operations(ranks, 12);
    }
  }

  /** LL and Simple on the same slots' steps, whatever the planner would choose. */
  @ParameterizedTest
  @CsvSource({"LL, Ring", "LL, Tree", "LL, OneShot", "Simple, OneShot", "Simple, PAT"})
  void everyAlgorithmInEveryProtocolThatIsCarried(String protocol, String algorithm) {
    List<String> hosts = List.of("a", "b", "c", "d", "e", "f", "g", "h").subList(0, gpus);
    try (Ranks ranks = start(hosts, Map.of("NCCL_PROTO", protocol, "NCCL_ALGO", algorithm))) {
      operations(ranks, 3);
    }
  }

  @Test
  void manyChannels() {
    List<String> hosts = List.of("a", "b", "c", "d", "e", "f", "g", "h").subList(0, gpus);
    try (Ranks ranks = start(hosts, Map.of("NCCL_NCHANNELS_PER_NET_PEER", "32"))) {
      operations(ranks, 3);
    }
  }

  /** As many channels, and as large data, as claim rounds of a ring where nothing is carried. */
  @Test
  void largeDataInManyChannelsOfRings() {
    int bytes = 128 << 20;
    List<String> hosts = List.of("a", "b", "c", "d", "e", "f", "g", "h").subList(0, gpus);
    Map<String, String> settings =
        Map.of("NCCL_NCHANNELS_PER_NET_PEER", "32", "NCCL_ALGO", "Ring", "NCCL_PROTO", "Simple");
    try (Ranks ranks = start(hosts, settings, bytes)) {
      for (Workload workload :
          List.of(
              Workload.BROADCAST,
              Workload.REDUCE,
              Workload.ALL_GATHER,
              Workload.REDUCE_SCATTER,
              Workload.ALL_REDUCE)) {
        long count = bytes / DataType.FLOAT32.bytes();
        Cell cell = new Cell(workload, DataType.FLOAT32, RedOp.SUM, 0, count, /* inPlace= */ false);
        RandomCells.check(ranks, cell, SEED);
      }
    }
  }

  @Test
  void twoHostsWithSeveralRanks() {
    assumeTrue(gpus % 2 == 0 && gpus > 2, "needs four GPUs");
    try (Ranks ranks = start(List.of("left", "right"), Map.of())) {
      operations(ranks, 12);
    }
  }

  @Test
  void oneHostWithoutMemoryInCommon() {
    Map<String, String> settings = Map.of("NCCL_P2P_DISABLE", "1", "NCCL_SHM_DISABLE", "1");
    try (Ranks ranks = start(List.of("same"), settings)) {
      operations(ranks, 12);
    }
  }
}
