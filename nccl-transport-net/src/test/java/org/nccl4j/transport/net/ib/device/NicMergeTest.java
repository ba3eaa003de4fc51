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
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
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

  /** Two ports of a card, a card at the same switch, one at the same CPU and one at another. */
  @ParameterizedTest
  @CsvSource({
    "LOC, a:1 b:1 c:1 d:1 e:1",
    "PORT, a:1+b:1 c:1 d:1 e:1",
    "pix, a:1+b:1+c:1 d:1 e:1",
    "PXB, a:1+b:1+c:1 d:1 e:1",
    "PHB, a:1+b:1+c:1+d:1 e:1",
    "SYS, a:1+b:1+c:1+d:1 e:1", // four at most
  })
  void theLevelSaysHowFarApartPortsMayBe(String level, String expected, @TempDir Path sysfs)
      throws IOException {
    String near = sysfs + "/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/";
    List<IbPort> ports =
        List.of(
            port("a", 1, near + "0000:03:00.0"),
            port("b", 1, near + "0000:03:00.1"),
            port("c", 1, near.replace("02:00", "02:01") + "0000:04:00.0"),
            port("d", 1, sysfs + "/pci0000:00/0000:00:02.0/0000:05:00.0"),
            port("e", 1, sysfs + "/pci0000:80/0000:80:01.0/0000:81:00.0"));
    for (IbPort port : ports) {
      Files.createDirectories(Path.of(port.pciPath()));
      Files.writeString(
          Path.of(port.pciPath(), "numa_node"), port.device().equals("e") ? "1\n" : "0\n");
    }
    assertEquals(List.of(expected.split(" ")), groups(ports, "NCCL_NET_MERGE_LEVEL", level), level);
  }

  /** A port that is named, and one without a place on PCI, are in no group by the level. */
  @Test
  void theLevelLeavesNamedPortsAndSoftRoceAlone() {
    List<IbPort> ports =
        List.of(
            port("rxe0", 1, ""),
            port("rxe1", 1, ""),
            port("mlx5_0", 1, CARD + ".0"),
            port("mlx5_1", 1, CARD + ".1"));
    assertEquals(
        List.of("rxe0:1", "rxe1:1", "mlx5_0:1+mlx5_1:1"),
        groups(ports, "NCCL_NET_MERGE_LEVEL", "SYS"));
    assertEquals(
        List.of("rxe0:1+mlx5_0:1", "rxe1:1", "mlx5_1:1"),
        groups(ports, "NCCL_NET_FORCE_MERGE", "rxe0,mlx5_0"));
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
