package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.CommunicatorConfig;

/** Operations over the InfiniBand network and a libibverbs that moves data within the process. */
@Timeout(120)
class IbOperationsTest {
  private static final Path HEADER = Path.of("/usr/include/infiniband/verbs.h");
  private static final Path SOURCE = Path.of("..", "nccl-transport-net/src/test/c/fakeverbs.c");

  @TempDir private static Path directory;
  private static String library;

  @BeforeAll
  static void buildLibrary() throws IOException, InterruptedException {
    assumeTrue(Files.exists(HEADER), "no " + HEADER + ": apt-get install libibverbs-dev");
    library = directory.resolve("libfakeverbs.so").toString();
    Process gcc;
    try {
      gcc =
          new ProcessBuilder(
                  List.of(
                      "gcc",
                      "-DFAKE_ROCE",
                      "-shared",
                      "-fPIC",
                      "-O1",
                      "-pthread",
                      "-o",
                      library,
                      SOURCE.toString()))
              .redirectErrorStream(true)
              .start();
    } catch (IOException e) {
      assumeTrue(false, "no gcc: " + e.getMessage());
      return;
    }
    String output = new String(gcc.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, gcc.waitFor(), output);
  }

  @ParameterizedTest
  @CsvSource({"2, 1000, 1, 0", "3, 100000, 1, 0", "2, 300000, 3, 0", "3, 70000, 2, 1"})
  void everyOperation(int n, int count, String pairs, String split) throws Exception {
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .withTransports(List.of("NET"))
            .with("NCCL_NET", "IB")
            .with("NCCL_IBVERBS_LIB", library)
            .with("NCCL_IB_QPS_PER_CONNECTION", pairs)
            .with("NCCL_IB_SPLIT_DATA_ON_QPS", split);
    try (Ranks ranks = new Ranks(n, config)) {
      assertEquals("NET", ranks.communicators.get(0).transports().get(1));
      OperationsTest.everyOperation(ranks, count);
    }
    assertTrue(
        Thread.getAllStackTraces().keySet().stream()
            .noneMatch(thread -> thread.getName().startsWith("nccl4j-socket")),
        "no sockets are used");
  }
}
