package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;

/**
 * Warnings of networks: sockets replace an InfiniBand that cannot be used, unless it was asked for;
 * networks other than sockets neither encrypt nor check data.
 */
@Timeout(600)
class NetworkFallbackTest {
  private final List<String> warnings = new ArrayList<>();

  /** Threads of what earlier tests have left, such as the watch of a connection. */
  private final Set<Thread> earlier = new HashSet<>(Thread.getAllStackTraces().keySet());

  private final Logger logger = Logger.getLogger("org.nccl4j.NET");
  private final Handler collector =
      new Handler() {
        @Override
        public void publish(LogRecord record) {
          if (record.getLevel().intValue() >= Level.WARNING.intValue()
              && !earlier.contains(Thread.currentThread())) {
            synchronized (warnings) {
              warnings.add(new SimpleFormatter().formatMessage(record));
            }
          }
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
      };

  @BeforeEach
  void listen() {
    earlier.remove(Thread.currentThread());
    FakeVerbsLibrary.path(); // here, since a rank's thread cannot skip the test
    logger.addHandler(collector);
  }

  @AfterEach
  void listenNoMore() {
    logger.removeHandler(collector);
  }

  private CommunicatorConfig config(String... settings) {
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .withTransports(List.of("NET"))
            .with("NCCL4J_NET_SILENCE_TIMEOUT", "0") // a stall would be a warning
            .with("NCCL_IBVERBS_LIB", FakeVerbsLibrary.path());
    for (int i = 0; i < settings.length; i += 2) {
      config = config.with(settings[i], settings[i + 1]);
    }
    return config;
  }

  /** Two ranks, each with its configuration, add their numbers; what was warned of. */
  private List<String> warningsOf(Function<Integer, CommunicatorConfig> configs) throws Exception {
    UniqueId id = UniqueId.create(configs.apply(0));
    List<CompletableFuture<Float>> sums = new ArrayList<>();
    for (int i = 0; i < 2; i++) {
      int rank = i;
      CompletableFuture<Float> sum = new CompletableFuture<>();
      sums.add(sum);
      Thread thread =
          new Thread(
              () -> {
                try {
                  sum.complete(sum(id, rank, configs.apply(rank)));
                } catch (RuntimeException | Error e) {
                  sum.completeExceptionally(e);
                }
              });
      thread.setDaemon(true);
      thread.start();
    }
    for (CompletableFuture<Float> sum : sums) {
      assertEquals(3f, sum.get(300, TimeUnit.SECONDS));
    }
    synchronized (warnings) {
      return List.copyOf(warnings);
    }
  }

  private static float sum(UniqueId id, int rank, CommunicatorConfig config) {
    try (Communicator communicator = Communicator.initRank(2, id, rank, Devices.host(), config);
        DeviceStream stream = communicator.device().createStream();
        DeviceMemory data = Ranks.floats(10, i -> rank + 1)) {
      communicator.allReduce(data, data, 10, DataType.FLOAT32, RedOp.SUM, stream);
      stream.synchronize();
      return Ranks.floats(data)[9];
    }
  }

  private static void assertOne(List<String> warnings, String... texts) {
    List<String> those = warnings.stream().filter(text -> text.contains(texts[0])).toList();
    assertEquals(1, those.size(), warnings::toString);
    for (String text : texts) {
      assertTrue(those.get(0).contains(text), text + " in: " + those.get(0));
    }
  }

  @Test
  void noWarningWhereItIsUsedOrForbidden() throws Exception {
    assertEquals(List.of(), warningsOf(rank -> config()));
    assertEquals(List.of(), warningsOf(rank -> config("NCCL_IB_DISABLE", "1")));
    assertEquals(List.of(), warningsOf(rank -> config("NCCL_IB_HCA", "^roce")));
  }

  /** A job with certificates must know which of its data can be read on the way. */
  @Test
  void certificatesOverInfiniBandAreOneWarning() throws Exception {
    List<String> said = warningsOf(rank -> certified(config("NCCL_NET", "IB")));
    assertEquals(1, said.size(), said.toString());
    assertOne(
        said,
        "NCCL4J_TLS_CERT is set",
        "data between ranks go in clear over network IB: the NIC moves them",
        "NCCL_NET=Socket",
        "NCCL4J_NET_TLS=0");
  }

  @Test
  void dataInClearThatAreAskedForOrEncryptedAreNoWarning() throws Exception {
    assertEquals(
        List.of(), warningsOf(rank -> certified(config("NCCL_NET", "IB", "NCCL4J_NET_TLS", "0"))));
    assertEquals(
        List.of(),
        warningsOf(
            rank -> certified(config("NCCL_NET", "Socket", "NCCL4J_NET_CHECKSUM", "crc32c"))));
  }

  @Test
  void checksumsOverInfiniBandAreOneWarning() throws Exception {
    List<String> said = warningsOf(rank -> config("NCCL4J_NET_CHECKSUM", "crc32c"));
    assertEquals(1, said.size(), said.toString());
    assertOne(
        said,
        "NCCL4J_NET_CHECKSUM=crc32c has no effect on data over network IB: the NIC moves them",
        "NCCL_NET=Socket");
  }

  @Test
  void whatAPluginSendsIsNeitherEncryptedNorChecked(@TempDir Path folder) throws Exception {
    CommunicatorConfig plugin =
        certified(config("NCCL_NET", "Plugin", "NCCL4J_NET_CHECKSUM", "crc32c"))
            .with("NCCL_NET_PLUGIN", NetPluginLibrary.build(folder, 9, "clear"));
    List<String> said = warningsOf(rank -> plugin);
    assertEquals(2, said.size(), said.toString());
    assertOne(said, "go in clear over network Plugin: plug-in ", " moves them", "NCCL_NET=Socket");
    assertOne(said, "crc32c has no effect on data over network Plugin: plug-in ");
  }

  private static CommunicatorConfig certified(CommunicatorConfig config) {
    Path files =
        Path.of("..", "nccl-api", "src", "test", "resources", "org/nccl4j/api/bootstrap/tls");
    return config
        .with("NCCL4J_TLS_CERT", files.resolve("rank.pem").toString())
        .with("NCCL4J_TLS_KEY", files.resolve("rank.key").toString())
        .with("NCCL4J_TLS_CA", files.resolve("authority.pem").toString());
  }

  @Test
  void aDeviceThatIsNotThereIsNamed() throws Exception {
    assertOne(
        warningsOf(rank -> config("NCCL_IB_HCA", "=mlx5_7")),
        "InfiniBand is there but not used",
        "network Socket is used instead",
        "NCCL_NET=IB",
        "roce0:1: NCCL_IB_HCA==mlx5_7 leaves it out");
  }

  @Test
  void aRankWithoutAnyNetworkSaysWhatEachLacks() {
    CommunicatorConfig config = config("NCCL_IB_DISABLE", "1", "NCCL_SOCKET_IFNAME", "nosuch0");
    NcclException e =
        assertThrows(
            NcclException.class,
            () -> Communicator.initAll(List.of(Devices.host(), Devices.host()), config));
    assertTrue(e.problem().contains("Socket: no, "), e.problem());
    assertTrue(e.problem().contains("nosuch0"), e.problem());
    assertTrue(e.problem().contains("IB: no, NCCL_IB_DISABLE"), e.problem());
  }

  @Test
  void oneRankWithoutItHasSocketsUsedByBothAndItIsSaid() throws Exception {
    assertOne(
        warningsOf(rank -> rank == 0 ? config() : config("NCCL_IB_DISABLE", "1")),
        "rank 0 can use network IB",
        "rank 1 only [Socket]",
        "they use Socket",
        "NCCL_NET=IB");
  }
}
