package org.nccl4j.it.sample;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;

/** A network that throws on rank 0 while data move is named there, and the other rank is told. */
@Timeout(600)
class FaultyNetTest {
  private static final String SOURCE =
      """
      package org.example.faulty;

      import java.lang.reflect.*;
      import java.util.ServiceLoader;
      import org.nccl4j.api.spi.*;

      public final class FaultyNet implements NetProvider {
        private final NetProvider sockets =
            ServiceLoader.load(NetProvider.class, FaultyNet.class.getClassLoader().getParent())
                .stream()
                .map(ServiceLoader.Provider::get)
                .filter(net -> net.name().equals("Socket"))
                .findFirst()
                .orElseThrow();

        @Override
        public String name() {
          return "faulty-net";
        }

        @Override
        public int priority() {
          return 1;
        }

        @Override
        public Support support(NetContext context) {
          return sockets.support(context);
        }

        @Override
        public Net open(NetContext context) {
          Net net = sockets.open(context);
          return context.rank() == 0 ? (Net) faulty(net, Net.class) : net;
        }

        private static Object faulty(Object inner, Class<?> type) {
          return Proxy.newProxyInstance(
              FaultyNet.class.getClassLoader(),
              new Class<?>[] {type},
              (self, method, arguments) -> {
                if (method.getName().equals(System.getProperty("faulty.call"))) {
                  if (Boolean.getBoolean("faulty.error")) {
                    throw new NoClassDefFoundError("org/example/Missing");
                  }
                  throw new IllegalStateException("not now");
                }
                Object answer = method.invoke(inner, arguments);
                boolean part = answer instanceof NetListener || answer instanceof NetConnection
                    || answer instanceof NetRequest;
                return part ? faulty(answer, method.getReturnType()) : answer;
              });
        }
      }
      """;

  @TempDir private Path folder;
  private CompiledPlugins plugins;

  @BeforeEach
  void compile() throws Exception {
    plugins =
        CompiledPlugins.of(
            folder, SOURCE, Map.of(NetProvider.class, "org.example.faulty.FaultyNet"));
  }

  @AfterEach
  void remove() throws Exception {
    System.clearProperty("faulty.call");
    System.clearProperty("faulty.error");
    plugins.close();
  }

  private static NcclException failure(Communicator communicator) {
    try (DeviceStream stream = communicator.device().createStream();
        DeviceMemory data = communicator.device().allocate(4 << 10)) {
      return assertThrows(
          NcclException.class,
          () -> {
            communicator.allReduce(data, data, 1 << 10, DataType.FLOAT32, RedOp.SUM, stream);
            stream.synchronize();
          });
    }
  }

  @ParameterizedTest
  @CsvSource({
    "isend, false",
    "irecv, false",
    "test, false",
    "isend, true",
    "irecv, true",
    "test, true"
  })
  void itsErrorIsThePlugIns(String call, boolean error) throws Exception {
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .with("NCCL_NET", "faulty-net")
            .with("NCCL_P2P_DISABLE", "1")
            .with("NCCL_SHM_DISABLE", "1")
            .with("NCCL_SOCKET_IFNAME", "lo")
            .withOperationTimeout(Duration.ofSeconds(50));
    List<Communicator> ranks =
        Communicator.initAll(List.of(Devices.host(), Devices.host()), config);
    System.setProperty("faulty.error", Boolean.toString(error));
    System.setProperty("faulty.call", call);
    List<CompletableFuture<NcclException>> failures =
        ranks.stream()
            .map(
                rank ->
                    CompletableFuture.supplyAsync(
                        () -> failure(rank), task -> new Thread(task).start()))
            .toList();
    NcclException first = failures.get(0).get(300, TimeUnit.SECONDS);
    NcclException second = failures.get(1).get(300, TimeUnit.SECONDS);
    ranks.forEach(Communicator::close);
    String blamed =
        "network faulty-net (org.example.faulty.FaultyNet) fails with "
            + (error
                ? "java.lang.NoClassDefFoundError"
                : "java.lang.IllegalStateException: not now");
    assertEquals(ErrorId.PLUGIN, first.id(), first.getMessage());
    assertTrue(first.problem().contains(blamed), first.problem());
    assertTrue(first.problem().endsWith(call), first.problem());
    assertTrue(first.remedy().contains("NCCL_NET"), first.remedy());
    assertTrue(second.getMessage().contains(blamed), second.getMessage());
  }
}
