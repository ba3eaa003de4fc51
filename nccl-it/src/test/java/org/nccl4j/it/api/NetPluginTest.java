package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletionException;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.testkit.NetContract;
import org.nccl4j.transport.net.plugin.PluginNetProvider;

/** Network plug-ins that were made for NCCL, in C, in each version of ncclNet. */
class NetPluginTest {
  private static final int COUNT = 100_003;

  @TempDir static Path folder;

  private static String plugin(int version, String name) throws IOException, InterruptedException {
    return NetPluginLibrary.build(folder, version, name);
  }

  @TestFactory
  Stream<DynamicTest> eachVersionKeepsTheContractOfNetworks() throws Exception {
    Stream<DynamicTest> all = Stream.empty();
    for (int version : new int[] {8, 9, 10, 11}) {
      Map<String, String> settings = Map.of("NCCL_NET_PLUGIN", plugin(version, "contract"));
      NetContract contract =
          new NetContract() {
            @Override
            protected NetProvider provider() {
              return new PluginNetProvider();
            }

            @Override
            protected Map<String, String> settings() {
              return settings;
            }
          };
      all =
          Stream.concat(
              all,
              contract.checks().stream()
                  .filter(check -> allocatesNothing() || !check.name().contains("allocates"))
                  .map(check -> dynamicTest("v" + version + ": " + check.name(), check::run)));
    }
    return all;
  }

  /** Before Java 22 a call of more than six words allocates its arguments. */
  private static boolean allocatesNothing() {
    return Runtime.version().feature() >= 22;
  }

  @ParameterizedTest
  @ValueSource(ints = {8, 9, 10, 11})
  void ranksOfSeveralHostsReduceThroughIt(int version) throws Exception {
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .with("NCCL_NET", "Plugin")
            .with("NCCL_NET_PLUGIN", plugin(version, "reduce"));
    try (Ranks ranks = Ranks.onHosts("abc", config)) {
      ranks.run(
          (rank, stream) -> {
            int mine = rank.rank();
            try (DeviceMemory memory = Ranks.floats(COUNT, i -> i % 1000 + mine)) {
              rank.allReduce(memory, memory, COUNT, DataType.FLOAT32, RedOp.SUM, stream);
              stream.synchronize();
              float[] expected = new float[COUNT];
              IntStream.range(0, COUNT).forEach(i -> expected[i] = 3 * (i % 1000) + 3);
              assertArrayEquals(expected, Ranks.floats(memory));
            }
            assertEquals(Set.of("NET"), Set.copyOf(rank.transports().values()));
          });
    }
  }

  @Test
  void differentPluginsOnTwoRanksAreAnError() throws Exception {
    String one = plugin(9, "one");
    String other = plugin(9, "other");
    CommunicatorConfig config = CommunicatorConfig.defaults().with("NCCL_NET", "Plugin");
    CompletionException e =
        assertThrows(
            CompletionException.class,
            () ->
                Ranks.onHosts(
                        "ab",
                        List.of(Devices.host()),
                        rank -> config.with("NCCL_NET_PLUGIN", rank == 0 ? one : other))
                    .close());
    assertTrue(e.getMessage().contains("use the same plug-in on all ranks"), e.getMessage());
  }

  @Test
  void aPluginThatIsNotThereIsNamedWithTheReason() {
    CommunicatorConfig config =
        CommunicatorConfig.defaults().with("NCCL_NET", "Plugin").with("NCCL_NET_PLUGIN", "nowhere");
    CompletionException e =
        assertThrows(CompletionException.class, () -> Ranks.onHosts("ab", config).close());
    List<String> parts = Arrays.asList("libnccl-net-nowhere.so", "Plugin");
    assertTrue(parts.stream().allMatch(e.getMessage()::contains), e.getMessage());
  }
}
