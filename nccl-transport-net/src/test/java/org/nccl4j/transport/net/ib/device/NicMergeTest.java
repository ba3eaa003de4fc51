package org.nccl4j.transport.net.ib.device;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.transport.net.ib.verbs.VerbsLayout;

class NicMergeTest {
  private static final String CARD = "/sys/devices/pci0000:00/0000:3b:00";

  private static IbPort port(String device, int port, String pciPath, boolean ethernet) {
    return new IbPort(
        device,
        port,
        0,
        pciPath,
        VerbsLayout.PORT_ACTIVE,
        ethernet,
        0,
        5,
        100_000,
        1 << 30,
        false,
        List.of());
  }

  private static IbPort port(String device, int port, String pciPath) {
    return port(device, port, pciPath, true);
  }

  /** The names in the groups of ports, with settings NAME, VALUE, ... */
  private static List<String> groups(List<IbPort> ports, String... settings) {
    Map<String, String> values = settings.length == 0 ? Map.of() : Map.of(settings[0], settings[1]);
    NetContext context =
        new NetContext() {
          @Override
          public int rank() {
            return 0;
          }

          @Override
          public byte[] secret() {
            return new byte[16];
          }

          @Override
          public Optional<String> setting(String name) {
            return Optional.ofNullable(values.get(name));
          }
        };
    return NicMerge.of(context).groups(ports).stream()
        .map(group -> group.stream().map(IbPort::name).collect(Collectors.joining("+")))
        .toList();
  }

  @Test
  void portsOfOneDeviceAndFunctionsOfOneCardAreMerged() {
    List<IbPort> ports =
        List.of(
            port("mlx4_0", 1, ""),
            port("mlx5_0", 1, CARD + ".0"),
            port("mlx4_0", 2, ""),
            port("mlx5_1", 1, CARD + ".1"),
            port("mlx5_2", 1, "/sys/devices/pci0000:00/0000:3c:00.0"));
    assertEquals(List.of("mlx4_0:1+mlx4_0:2", "mlx5_0:1+mlx5_1:1", "mlx5_2:1"), groups(ports));
    List<String> alone = List.of("mlx4_0:1", "mlx5_0:1", "mlx4_0:2", "mlx5_1:1", "mlx5_2:1");
    assertEquals(alone, groups(ports, "NCCL_IB_MERGE_NICS", "0"));
    assertEquals(alone, groups(ports, "NCCL_NET_MERGE_LEVEL", "LOC"));
    assertEquals(
        List.of("mlx4_0:1+mlx4_0:2", "mlx5_0:1+mlx5_2:1", "mlx5_1:1"),
        groups(ports, "NCCL_NET_FORCE_MERGE", "mlx5_0,mlx5_2:1"));
  }

  @Test
  void portsOfDifferentLinkLayersAreNotMerged() {
    List<IbPort> ports =
        List.of(port("mlx5_0", 1, CARD + ".0"), port("mlx5_1", 1, CARD + ".1", false));
    assertEquals(List.of("mlx5_0:1", "mlx5_1:1"), groups(ports));
    String text =
        assertThrows(
                InvalidArgumentException.class,
                () -> groups(ports, "NCCL_NET_FORCE_MERGE", "mlx5_0,mlx5_1"))
            .getMessage();
    assertTrue(text.contains("mlx5_1:1 InfiniBand"), text);
    assertTrue(text.contains("NCCL_NET_FORCE_MERGE"), text);
  }

  @Test
  void virtualFunctionsAreNotMergedByThemselves(@TempDir Path sysfs) throws IOException {
    for (int function = 2; function < 4; function++) {
      Files.createDirectories(sysfs.resolve("0000:3b:00." + function + "/physfn"));
    }
    List<IbPort> ports =
        List.of(
            port("mlx5_2", 1, sysfs + "/0000:3b:00.2"), port("mlx5_3", 1, sysfs + "/0000:3b:00.3"));
    assertEquals(List.of("mlx5_2:1", "mlx5_3:1"), groups(ports));
    assertEquals(
        List.of("mlx5_2:1+mlx5_3:1"), groups(ports, "NCCL_NET_FORCE_MERGE", "mlx5_2,mlx5_3"));
  }

  @Test
  void aDeviceHasAtMostFourPorts() {
    List<IbPort> ports =
        java.util.stream.IntStream.range(0, 6)
            .mapToObj(i -> port("mlx5_" + i, 1, CARD + "." + i))
            .toList();
    assertEquals(
        List.of("mlx5_0:1+mlx5_1:1+mlx5_2:1+mlx5_3:1", "mlx5_4:1+mlx5_5:1"), groups(ports));
    assertThrows(
        InvalidArgumentException.class,
        () -> groups(ports, "NCCL_NET_FORCE_MERGE", "mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4"));
  }
}
