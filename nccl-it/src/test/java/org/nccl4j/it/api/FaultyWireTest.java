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
@Timeout(180)
class FaultyWireTest {
  private static final int LARGE = 1 << 20;

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
    for (NcclException each : failures(3, with(faults))) {
      assertTrue(each.problem().contains("has lost its connection with rank"), each.problem());
    }
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
            assertThrows(ExecutionException.class, () -> task.get(100, TimeUnit.SECONDS))
                .getCause();
        failures.add((NcclException) cause);
      }
    } finally {
      ranks.communicators.forEach(c -> c.abort());
      ranks.close();
    }
    long end = System.nanoTime() + 60_000_000_000L;
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
