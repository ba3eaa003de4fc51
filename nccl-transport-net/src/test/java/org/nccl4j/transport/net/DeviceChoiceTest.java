package org.nccl4j.transport.net;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;

class DeviceChoiceTest {
  private static List<PeerInfo> peers(String... hosts) {
    List<PeerInfo> peers = new ArrayList<>();
    for (String host : hosts) {
      peers.add(
          new PeerInfo(peers.size(), host, "", "", 0, Device.Kind.HOST, "host", List.of("Socket")));
    }
    return peers;
  }

  @Test
  void aMergedDeviceIsFoundByEachOfItsPorts() {
    List<NetDevice> devices = List.of(named("mlx5_0:1"), named("mlx5_1:1+mlx5_2:1"));
    for (String port : List.of("mlx5_1:1", "mlx5_2:1", "mlx5_1:1+mlx5_2:1")) {
      assertEquals(1, DeviceChoice.of(0, peers("a"), devices, List.of("mlx5_1", port)), port);
    }
    assertEquals(0, DeviceChoice.of(0, peers("a"), devices, List.of("mlx5_1", "mlx5_0:1")));
  }

  /** All that are nearest, in their order; none where data leave through another one. */
  @Test
  void channelsTakeTurnsWithTheNearestDevices() {
    List<NetDevice> devices = devices(100, 100, 100, 100);
    List<String> nearest = List.of("eth2:1", "eth2", "eth3", "eth1");
    for (List<String> out : List.of(List.<String>of(), List.of("eth3:1", "eth3"))) {
      assertEquals(List.of(2, 3, 1), DeviceChoice.ofChannels(devices, out, nearest));
    }
    assertEquals(List.of(), DeviceChoice.ofChannels(devices, List.of("eth0"), nearest));
    assertEquals(List.of(), DeviceChoice.ofChannels(devices, List.of(), List.of("ib0")));
    List<NetDevice> merged = List.of(named("a:1"), named("b:1+c:1"));
    assertEquals(
        List.of(1, 0),
        DeviceChoice.ofChannels(merged, List.of("c:1"), List.of("b:1", "c:1", "a:1")));
  }

  /** A card of half the speed gets half as many channels. */
  @ParameterizedTest
  @CsvSource({
    "'100,100', 0 1 0 1 0 1",
    "'200,100', 0 0 1 0 0 1",
    "'100,400', 1 1 1 0 1 1",
    "'100', 0 0 0 0 0 0",
    "'0,0', 0 1 0 1 0 1"
  })
  void devicesGetChannelsByTheirSpeeds(String speeds, String expected) {
    List<NetDevice> devices =
        devices(Stream.of(speeds.split(",")).mapToInt(Integer::parseInt).toArray());
    Net net =
        (Net)
            Proxy.newProxyInstance(
                Net.class.getClassLoader(),
                new Class<?>[] {Net.class},
                (self, method, arguments) -> devices);
    List<Integer> all = IntStream.range(0, devices.size()).boxed().toList();
    NicChoice choice = new NicChoice("Test", net, all, null, false, false);
    assertEquals(
        expected,
        IntStream.range(0, 6)
            .mapToObj(channel -> Integer.toString(choice.device(channel)))
            .collect(Collectors.joining(" ")));
  }

  private static NetDevice named(String name) {
    return new NetDevice(name, "", 0, 1, 100, 1, Set.of(NetDevice.Pointers.HOST), 1, 1 << 20);
  }

  private static List<NetDevice> devices(int... megabits) {
    List<NetDevice> devices = new ArrayList<>();
    for (int speed : megabits) {
      devices.add(
          new NetDevice(
              "eth" + devices.size(),
              "",
              devices.size(),
              1,
              speed,
              25,
              Set.of(NetDevice.Pointers.HOST),
              1,
              1 << 20));
    }
    return devices;
  }

  @Test
  void theRanksOfAHostTakeTurns() {
    List<PeerInfo> peers = peers("a", "b", "a", "a", "b");
    List<NetDevice> devices = devices(100, 100);
    assertEquals(0, DeviceChoice.of(0, peers, devices, List.of()));
    assertEquals(0, DeviceChoice.of(1, peers, devices, List.of()));
    assertEquals(1, DeviceChoice.of(2, peers, devices, List.of()));
    assertEquals(0, DeviceChoice.of(3, peers, devices, List.of()));
    assertEquals(1, DeviceChoice.of(4, peers, devices, List.of()));
  }

  @Test
  void slowDevicesAreLeftOut() {
    List<PeerInfo> peers = peers("a", "a", "a");
    List<NetDevice> devices = devices(1, 100, 10, 100);
    assertEquals(1, DeviceChoice.of(0, peers, devices, List.of()));
    assertEquals(3, DeviceChoice.of(1, peers, devices, List.of()));
    assertEquals(1, DeviceChoice.of(2, peers, devices, List.of()));
  }

  @Test
  void whatIsNearestIsTakenWhateverItsSpeedIfItIsThere() {
    List<PeerInfo> peers = peers("a", "a");
    List<NetDevice> devices = devices(100, 10, 100);
    List<String> nearest = List.of("mlx5_0:1", "eth1", "eth0");
    assertEquals(1, DeviceChoice.of(0, peers, devices, nearest));
    assertEquals(1, DeviceChoice.of(1, peers, devices, nearest));
    assertEquals(2, DeviceChoice.of(1, peers, devices, List.of("mlx5_0:1")));
  }
}
