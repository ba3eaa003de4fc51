package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.CommunicatorConfig;

/** Operations over the InfiniBand network and a libibverbs that moves data within the process. */
@Timeout(120)
class IbOperationsTest {
  @ParameterizedTest
  @CsvSource({"2, 1000, 1, 0", "3, 100000, 1, 0", "2, 300000, 3, 0", "3, 70000, 2, 1"})
  void everyOperation(int n, int count, String pairs, String split) throws Exception {
    everyOperation(
        n,
        count,
        config()
            .with("NCCL_IB_QPS_PER_CONNECTION", pairs)
            .with("NCCL_IB_SPLIT_DATA_ON_QPS", split));
  }

  /** Where certificates are set, the queue pairs' numbers are told by TLS. */
  @Test
  void everyOperationWithCertificates() throws Exception {
    Path files =
        Path.of("..", "nccl-api", "src", "test", "resources", "org/nccl4j/api/bootstrap/tls");
    everyOperation(
        3,
        1000,
        config()
            .with("NCCL4J_TLS_CERT", files.resolve("rank.pem").toString())
            .with("NCCL4J_TLS_KEY", files.resolve("rank.key").toString())
            .with("NCCL4J_TLS_CA", files.resolve("authority.pem").toString()));
  }

  private static CommunicatorConfig config() {
    return CommunicatorConfig.defaults()
        .withTransports(List.of("NET"))
        .with("NCCL_NET", "IB")
        .with("NCCL_IBVERBS_LIB", FakeVerbsLibrary.path());
  }

  private static void everyOperation(int n, int count, CommunicatorConfig config) throws Exception {
    // Those of earlier tests may still be ending.
    Set<Thread> before = socketThreads();
    try (Ranks ranks = new Ranks(n, config)) {
      assertEquals("NET", ranks.communicators.get(0).transports().get(1));
      OperationsTest.everyOperation(ranks, count);
      Set<Thread> now = socketThreads();
      now.removeAll(before);
      assertEquals(Set.of(), now, "no sockets are used");
    }
  }

  private static Set<Thread> socketThreads() {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.getName().startsWith("nccl4j-socket"))
        .collect(Collectors.toSet());
  }
}
