package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;

/** Operations over the network transport, within one process. */
@Timeout(600)
class NetOperationsTest {
  private static CommunicatorConfig net() {
    return CommunicatorConfig.defaults().withTransports(List.of("NET"));
  }

  @ParameterizedTest
  @CsvSource({
    "2, 1000, ''",
    "3, 1, ''",
    "5, 1000, ''",
    "2, 300000, ''",
    "3, 100000, ''",
    "2, 300000, Ring",
    "3, 100000, Tree",
    "3, 70000, OneShot",
    "3, 70000, TwoShot",
  })
  void everyOperation(int n, int count, String algorithm) throws Exception {
    try (Ranks ranks = new Ranks(n, net().with("NCCL_ALGO", algorithm))) {
      assertEquals(Map.of(1, "NET"), limited(ranks.communicators.get(0).transports()));
      OperationsTest.everyOperation(ranks, count);
    }
  }

  private static Map<Integer, String> limited(Map<Integer, String> transports) {
    return Map.of(1, transports.get(1));
  }

  @ParameterizedTest
  @CsvSource({"1, 1", "2, 2", "3, 1"})
  void severalSocketsAConnection(int threads, int sockets) throws Exception {
    CommunicatorConfig config =
        net()
            .with("NCCL_SOCKET_NTHREADS", Integer.toString(threads))
            .with("NCCL_NSOCKS_PERTHREAD", Integer.toString(sockets));
    try (Ranks ranks = new Ranks(2, config)) {
      OperationsTest.everyOperation(ranks, 200_000);
    }
  }

  @ParameterizedTest
  @CsvSource({"2, 1000, 0", "3, 100000, 0", "2, 200000, 2"})
  void everyOperationWithTls(int n, int count, int threads) throws Exception {
    Path files =
        Path.of("..", "nccl-api", "src", "test", "resources", "org/nccl4j/api/bootstrap/tls");
    CommunicatorConfig config =
        net()
            .with("NCCL_SOCKET_NTHREADS", Integer.toString(threads))
            .with("NCCL4J_TLS_CERT", files.resolve("rank.pem").toString())
            .with("NCCL4J_TLS_KEY", files.resolve("rank.key").toString())
            .with("NCCL4J_TLS_CA", files.resolve("authority.pem").toString());
    try (Ranks ranks = new Ranks(n, config)) {
      assertEquals(Map.of(1, "NET"), limited(ranks.communicators.get(0).transports()));
      OperationsTest.everyOperation(ranks, count);
    }
  }

  @Test
  void nothingIsLeftBehind() throws Exception {
    Set<Thread> before = threads();
    try (Ranks ranks = new Ranks(2, net().with("NCCL_SOCKET_NTHREADS", "2"))) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = Ranks.floats(1 << 20, i -> 1)) {
              comm.allReduce(data, data, 1 << 20, DataType.FLOAT32, RedOp.SUM, stream);
              stream.synchronize();
            }
          });
    }
    // A thread that was told to end does so in its own time.
    long end = System.nanoTime() + Ranks.PATIENCE_NANOS;
    Set<Thread> left = threads();
    left.removeAll(before);
    while (left.stream().anyMatch(Thread::isAlive) && System.nanoTime() - end < 0) {
      Thread.yield();
    }
    assertEquals(List.of(), left.stream().filter(Thread::isAlive).toList());
  }

  private static Set<Thread> threads() {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(
            thread ->
                thread.getName().startsWith("nccl4j-socket")
                    || thread.getName().startsWith("nccl4j-proxy"))
        .collect(Collectors.toSet());
  }
}
