package org.nccl4j.transport.net;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
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
