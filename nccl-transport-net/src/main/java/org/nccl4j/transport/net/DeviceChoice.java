package org.nccl4j.transport.net;

import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.TransportContext.NearNet;

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
   * The turns that the channels of a GPU's connection may take: one for each device that the
   * topology gives the GPU, in the same order whatever the connection, so that the channels of GPUs
   * with the same number on two hosts stay on their rails. Speeds are the topology's, which both
   * ends know, not what a network says of its device. The first device takes the turns of those
   * that the network does not have, so that the other turns stay the same.
   *
   * @param nearest the GPU's devices, in the order of channels
   * @return empty if the network has none of them
   */
  static List<NicChoice.Turn> ofChannels(List<NetDevice> devices, List<NearNet> nearest) {
    List<Integer> all = nearest.stream().flatMap(net -> including(devices, net.names())).toList();
    return all.isEmpty()
        ? List.of()
        : nearest.stream()
            .map(
                net ->
                    new NicChoice.Turn(
                        including(devices, net.names()).findFirst().orElse(all.get(0)),
                        net.speed()))
            .toList();
  }

  private static Stream<Integer> including(List<NetDevice> devices, List<String> names) {
    return names.stream()
        .flatMap(
            name ->
                IntStream.range(0, devices.size())
                    .filter(d -> devices.get(d).includes(name))
                    .boxed());
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
