package org.nccl4j.api.init.connect;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Proxy;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.init.topology.HostNics;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.NetDevice.Pointers;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.api.spi.Support;

/** The devices of networks that the topology gets. */
class NetDiscoveryTest {
  private record Named(String name, Set<Pointers> pointers, String... devices)
      implements NetProvider {
    @Override
    public int priority() {
      return 0;
    }

    @Override
    public Support support(NetContext context) {
      return Support.yes("it is there");
    }

    @Override
    public Net open(NetContext context) {
      List<NetDevice> all =
          Stream.of(devices)
              .map(device -> new NetDevice(device, "", 0, 1, 100_000, 0, pointers, 1, 1 << 20))
              .toList();
      return (Net)
          Proxy.newProxyInstance(
              Net.class.getClassLoader(),
              new Class<?>[] {Net.class},
              (net, method, arguments) -> method.getName().equals("devices") ? all : null);
    }
  }

  @Test
  void theBestNetworksDevicesArePreferred() {
    NetProvider best =
        new Named("IB", Set.of(Pointers.HOST, Pointers.CUDA), "mlx5_0:1+mlx5_0:2", "mlx5_1:1");
    NetProvider other = new Named("Socket", Set.of(Pointers.HOST), "eth0");
    assertEquals(
        new HostNics(
            Set.of("mlx5_0:1", "mlx5_0:2", "mlx5_1:1"), Set.of("mlx5_0:1", "mlx5_0:2", "mlx5_1:1")),
        NetDiscovery.nics(List.of(best, other), null));
    assertEquals(new HostNics(Set.of("eth0"), Set.of()), NetDiscovery.nics(List.of(other), null));
  }

  @ParameterizedTest
  @CsvSource({
    "'', '', IB, ''",
    "PORT, '', Socket, ''",
    "LOC, '', Socket, ''",
    "PIX, '', IB, ''",
    "PHB, '', IB, ''",
    "PIX, '', Plugin, NCCL_NET_MERGE_LEVEL=PIX does not affect network Plugin",
    "SYS, '', Socket, NCCL_NET_MERGE_LEVEL=SYS does not affect network Socket",
    "PORT, RAIL, IB, NCCL_NET_MERGE_POLICY=RAIL affects only nccl topo"
  })
  void settingsThatMergeNothingAreTold(
      String level, String policy, String network, String expected) {
    Map<String, String> settings =
        Map.of("NCCL_NET_MERGE_LEVEL", level, "NCCL_NET_MERGE_POLICY", policy);
    List<String> told = NetDiscovery.unmerged(Settings.ofProcess(settings), network);
    assertEquals(expected.isEmpty() ? 0 : 1, told.size(), told.toString());
    assertTrue(expected.isEmpty() || told.get(0).startsWith(expected), told.toString());
  }
}
