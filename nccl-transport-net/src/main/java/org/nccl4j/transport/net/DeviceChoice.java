package org.nccl4j.transport.net;

import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.PeerInfo;

/**
 * Chooses the devices of a network for a rank: the nearest one to a known GPU, else the ranks of a
 * host take turns with its fastest devices, so that all of these are in use at once. The
 * processor's memory is as near to one as to another. {@link PxnRoutes} chooses the NICs of other
 * ranks.
 */
final class DeviceChoice {
  private DeviceChoice() {}

  /**
   * The index of a rank's device.
   *
   * @param peers all ranks
   * @param devices of its host, not empty
   * @param nearest names of devices, best first; those of other networks count for nothing
   */
  static int of(int rank, List<PeerInfo> peers, List<NetDevice> devices, List<String> nearest) {
    for (String name : nearest) {
      for (int d = 0; d < devices.size(); d++) {
        if (devices.get(d).includes(name)) {
          return d;
        }
      }
    }
    return of(rank, peers, devices);
  }

  /**
   * The indices of the devices that the channels of a GPU's connection may take in turn: all that
   * the topology gives the GPU, in the same order whatever the connection, so that the channels of
   * GPUs with the same number on two hosts stay on their rails.
   *
   * @param out names of the device through which data leave; empty for any
   * @param nearest names of the GPU's devices, in the order of channels
   * @return empty if the device of the way out is another one
   */
  static List<Integer> ofChannels(List<NetDevice> devices, List<String> out, List<String> nearest) {
    List<Integer> all =
        nearest.stream().flatMap(name -> including(devices, name)).distinct().toList();
    boolean own =
        out.isEmpty() || out.stream().flatMap(n -> including(devices, n)).anyMatch(all::contains);
    return own ? all : List.of();
  }

  private static Stream<Integer> including(List<NetDevice> devices, String name) {
    return IntStream.range(0, devices.size()).filter(d -> devices.get(d).includes(name)).boxed();
  }

  private static int of(int rank, List<PeerInfo> peers, List<NetDevice> devices) {
    int most = devices.stream().mapToInt(NetDevice::megabits).max().orElse(0);
    int[] fastest =
        IntStream.range(0, devices.size()).filter(d -> devices.get(d).megabits() == most).toArray();
    String host = peers.get(rank).hostId();
    long before = peers.stream().filter(p -> p.rank() < rank && p.hostId().equals(host)).count();
    return fastest[(int) (before % fastest.length)];
  }
}
