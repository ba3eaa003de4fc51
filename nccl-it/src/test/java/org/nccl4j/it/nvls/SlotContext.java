package org.nccl4j.it.nvls;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.NetEgress;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.Support;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.Device;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.KernelDevice;

/**
 * The context of a transport whose kernels are threads: cards are near, and sockets go over
 * loopback.
 *
 * @param egress by peer, where another rank is to send
 * @param comes by peer, where another rank sends for it
 */
record SlotContext(
    int rank,
    List<PeerInfo> peers,
    Device device,
    NetProvider net,
    Map<Integer, NetEgress> egress,
    Map<Integer, NetEgress> comes)
    implements TransportContext {
  @Override
  public ConnectionLayout layout() {
    return ((KernelDevice) device).connectionLayout(2);
  }

  /** Ranks on GPUs of as many hosts, which a network connects. */
  static List<PeerInfo> peers(int ranks, NetProvider provider) {
    List<PeerInfo> peers = new ArrayList<>();
    for (int rank = 0; rank < ranks; rank++) {
      peers.add(
          new PeerInfo(
              rank,
              "host" + rank,
              "",
              "",
              0,
              Device.Kind.CUDA,
              "gpu" + rank,
              List.of(provider.name())));
    }
    return peers;
  }

  @Override
  public List<NetProvider> nets() {
    return List.of(net);
  }

  @Override
  public Support directAccess(NetDevice card, boolean reads) {
    return Support.yes("they are near");
  }

  /** As the program's environment says. */
  @Override
  public List<NearNet> nearestNets() {
    String names = System.getenv("NEAREST_NETS");
    return names == null
        ? List.of()
        : Stream.of(names.split(",")).map(name -> new NearNet(List.of(name), 25)).toList();
  }

  /** As the program's environment says. */
  @Override
  public int netChannels() {
    String channels = System.getenv("NET_CHANNELS");
    return channels == null ? 0 : Integer.parseInt(channels);
  }

  @Override
  public boolean isNeighbour(int peer) {
    return peer <= 3;
  }

  @Override
  public boolean takesTurns(int from, int to) {
    return !"1".equals(System.getenv("OTHER_NETS_DIFFER"));
  }

  @Override
  public Optional<NetEgress> egressTo(int peer) {
    return Optional.ofNullable(egress.get(peer));
  }

  @Override
  public Optional<NetEgress> egressFrom(int peer) {
    return Optional.ofNullable(comes.get(peer));
  }

  @Override
  public byte[] secret() {
    return new byte[16];
  }

  @Override
  public Optional<String> setting(String name) {
    return name.equals("NCCL_SOCKET_IFNAME")
        ? Optional.of("lo")
        : Optional.ofNullable(System.getenv(name));
  }
}
