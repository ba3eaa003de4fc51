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
import org.nccl4j.api.spi.TransportContext.NearNet;
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

  private static NearNet near(float speed, String... names) {
    return new NearNet(List.of(names), speed);
  }

  private static List<Integer> turns(List<NetDevice> devices, List<NearNet> nearest) {
    return DeviceChoice.ofChannels(devices, nearest).stream().map(NicChoice.Turn::device).toList();
  }

  /** All that are nearest, in their order. */
  @Test
  void channelsTakeTurnsWithTheNearestDevices() {
    List<NetDevice> devices = devices(100, 100, 100, 100);
    List<NearNet> nearest = List.of(near(1, "eth2:1", "eth2"), near(1, "eth3"), near(1, "eth1"));
    assertEquals(List.of(2, 3, 1), turns(devices, nearest));
    assertEquals(List.of(), turns(devices, List.of(near(1, "ib0"))));
    List<NetDevice> merged = List.of(named("a:1"), named("b:1+c:1"));
    assertEquals(
        List.of(1, 1, 0), turns(merged, List.of(near(1, "b:1"), near(1, "c:1"), near(1, "a:1"))));
  }

  /** A host whose network lacks a card gives the others' channels to the same rails. */
  @Test
  void theFirstDeviceTakesTheTurnsOfOnesThatAreMissing() {
    List<NearNet> nearest = List.of(near(1, "a"), near(1, "b"), near(1, "c"));
    List<NetDevice> some = List.of(named("b"), named("c"));
    assertEquals(List.of(0, 0, 1), turns(some, nearest));
    List<NetDevice> all = List.of(named("a"), named("b"), named("c"));
    assertEquals(List.of(0, 1, 2), turns(all, nearest));
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
    List<Float> of = Stream.of(speeds.split(",")).map(Float::valueOf).toList();
    List<NearNet> nearest =
        IntStream.range(0, of.size()).mapToObj(d -> near(of.get(d), "eth" + d)).toList();
    // What the network says of its devices is this host's alone: the other end does not know it.
    for (int[] own : List.of(new int[] {7, 7}, new int[] {1, 1000}, new int[] {0, 3})) {
      assertEquals(expected, channels(devices(own), nearest));
    }
  }

  private static String channels(List<NetDevice> devices, List<NearNet> nearest) {
    Net net =
        (Net)
            Proxy.newProxyInstance(
                Net.class.getClassLoader(),
                new Class<?>[] {Net.class},
                (self, method, arguments) -> devices);
    List<NicChoice.Turn> turns = DeviceChoice.ofChannels(devices, nearest);
    NicChoice choice = new NicChoice("Test", net, turns, null, false, false);
    return IntStream.range(0, 6)
        .mapToObj(channel -> Integer.toString(choice.device(channel)))
        .collect(Collectors.joining(" "));
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
