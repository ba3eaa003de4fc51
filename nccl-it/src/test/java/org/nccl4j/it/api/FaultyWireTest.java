package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;

/** Operations over connections whose bytes come in pieces, late, or not at all. */
@Timeout(600)
class FaultyWireTest {
  private static final int LARGE = 1 << 20;
  private static final String DAMAGED =
      "(?s).*rank [01] has received damaged data from rank [01]: on the connection from \\S+ to"
          + " \\S+ message \\d+ of \\d+ bytes \\(tag 0\\) is damaged: its CRC32C is [0-9a-f]{8}, .*";

  private static CommunicatorConfig with(String faults) {
    return CommunicatorConfig.defaults()
        .withTransports(List.of("NET"))
        .withNetName("FaultySocket")
        .with("NCCL_SOCKET_IFNAME", "lo")
        .with("NCCL4J_FAULTS", faults);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "2 | 700   | 0 | seed=1,piece=7",
        "3 | 3000  | 0 | seed=2,piece=61",
        "3 | 30000 | 2 | seed=3,piece=4000,stallsEvery=30000,stallMillis=5",
        "5 | 3000  | 0 | stallsEvery=6000,stallMillis=10",
        "3 | 3000  | 0 | seed=4,piece=900,refusals=30,delayLooks=20,reorders",
        "3 | 30000 | 0 | resetsAfter=300000",
        "2 | 30000 | 2 | resetsAfter=300000",
      })
  void everyOperationIsRight(int n, int count, int threads, String faults) throws Exception {
    CommunicatorConfig config =
        with(faults).with("NCCL_SOCKET_NTHREADS", Integer.toString(threads));
    try (Ranks ranks = new Ranks(n, config)) {
      OperationsTest.everyOperation(ranks, count);
    }
  }

  /** Both as the sockets see it and as the network's messages do. */
  @ParameterizedTest
  @ValueSource(strings = {"resetsAfter=1000000", "diesAfter=10"})
  void aConnectionThatBreaksIsAnErrorOnEveryRank(String faults) throws Exception {
    CommunicatorConfig config = with(faults).with("NCCL4J_NET_FAILOVER_TIMEOUT", "0");
    for (NcclException each : failures(3, config)) {
      assertTrue(each.problem().contains("has lost its connection with rank"), each.problem());
    }
  }

  /** The lowest bit of a float in the first slot that goes either way. */
  private static CommunicatorConfig flipped(String checksum) {
    return with("flipsAt=1000").with("NCCL4J_NET_CHECKSUM", checksum);
  }

  @Test
  void aBitThatIsFlippedInAllReduceIsAnErrorOnEveryRank() throws Exception {
    int named = 0;
    List<String> said = new ArrayList<>();
    for (NcclException each : failures(2, flipped("crc32c"))) {
      said.add(each.problem());
      assertEquals(NcclException.Code.REMOTE_ERROR, each.code());
      assertTrue(each.problem().matches("(?s).*rank [01].*"), each.problem());
      named += each.problem().matches(DAMAGED) ? 1 : 0;
    }
    assertTrue(named > 0, () -> "no rank names the damage: " + said);
  }

  @Test
  void withoutChecksumsAFlippedBitIsAWrongSum() throws Exception {
    List<Integer> wrong = new ArrayList<>();
    try (Ranks ranks = new Ranks(2, flipped("none"))) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = Ranks.floats(LARGE, i -> 1)) {
              comm.allReduce(data, data, LARGE, DataType.FLOAT32, RedOp.SUM, stream);
              stream.synchronize();
              int different = 0;
              for (float each : Ranks.floats(data)) {
                different += each == 2 ? 0 : 1;
              }
              synchronized (wrong) {
                wrong.add(different);
              }
            }
          });
    }
    assertTrue(wrong.get(0) + wrong.get(1) > 0, "the flip is seen in no sum");
  }

  @Test
  void aConnectionThatStopsEndsByTheDeadline() throws Exception {
    CommunicatorConfig config = with("stopsAfter=1000000").with("NCCL4J_TIMEOUT", "3s");
    for (NcclException each : failures(2, config)) {
      assertTrue(each.problem().matches("(?s).*rank [01].*"), each.problem());
    }
  }

  /** Each rank's result of a large all-reduce; nothing may be left afterwards. */
  private static List<NcclException> failures(int n, CommunicatorConfig config) throws Exception {
    new Ranks(n, with("piece=0")).close();
    final long before = openFiles();
    List<NcclException> failures = new ArrayList<>();
    Ranks ranks = new Ranks(n, config);
    try {
      List<FutureTask<Void>> tasks =
          ranks.start(
              (comm, stream) -> {
                try (DeviceMemory data = Ranks.floats(LARGE, i -> 1)) {
                  comm.allReduce(data, data, LARGE, DataType.FLOAT32, RedOp.SUM, stream);
                  stream.synchronize();
                }
              });
      for (FutureTask<Void> task : tasks) {
        Throwable cause =
            assertThrows(ExecutionException.class, () -> task.get(300, TimeUnit.SECONDS))
                .getCause();
        failures.add((NcclException) cause);
      }
    } finally {
      ranks.communicators.forEach(c -> c.abort());
      ranks.close();
    }
    long end = System.nanoTime() + Ranks.PATIENCE_NANOS;
    while ((openFiles() > before || !carriers().isEmpty()) && System.nanoTime() < end) {
      Thread.onSpinWait();
    }
    assertTrue(openFiles() <= before, before + " descriptors became " + openFiles());
    assertEquals(List.of(), carriers());
    return failures;
  }

  /** The threads that carry data. */
  private static List<String> carriers() {
    return Thread.getAllStackTraces().keySet().stream()
        .map(Thread::getName)
        .filter(name -> name.matches("(nccl4j-(socket|proxy)|faulty-wire).*"))
        .toList();
  }

  private static long openFiles() throws IOException {
    try (Stream<Path> files = Files.list(Path.of("/proc/self/fd"))) {
      return files.count();
    }
  }

  @Test
  void faultsThatDoNotExistAreNamed() {
    InvalidArgumentException e =
        assertThrows(
            InvalidArgumentException.class, () -> new Ranks(2, with("seed=1,pieces=3")).close());
    assertTrue(e.problem().contains("pieces=3"), e.problem());
    assertTrue(e.remedy().contains("piece,"), e.remedy());
  }

  @Test
  void withoutFaultsItIsNotUsed() {
    try (Ranks ranks = new Ranks(2, CommunicatorConfig.defaults().withTransports(List.of("NET")))) {
      assertEquals(Map.of(1, "NET"), ranks.communicators.get(0).transports());
    }
  }
}
