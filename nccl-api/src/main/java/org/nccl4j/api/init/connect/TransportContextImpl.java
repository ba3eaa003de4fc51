package org.nccl4j.api.init.connect;

import java.io.IOException;
import java.nio.channels.ByteChannel;
import java.nio.channels.SocketChannel;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import org.nccl4j.api.init.topology.NetDistances;
import org.nccl4j.api.init.topology.PeerDistances;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.NetEgress;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.Profiler;
import org.nccl4j.api.spi.Setting;
import org.nccl4j.api.spi.Support;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.api.wire.tls.NetworkTls;
import org.nccl4j.device.Device;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.topo.connect.EgressRoutes;

/**
 * The {@link org.nccl4j.api.spi.TransportContext} of the engine.
 *
 * @param neighbours ranks to which rings, trees and the like lead from this one
 */
public record TransportContextImpl(
    int rank,
    List<PeerInfo> peers,
    List<NetProvider> nets,
    Device device,
    ConnectionLayout layout,
    byte[] secret,
    Settings settings,
    NetDistances distances,
    PeerDistances peerDistances,
    Set<Integer> neighbours,
    Optional<EgressRoutes> egress,
    NetworkTls tls,
    Optional<Consumer<Profiler.ProxyStep>> proxySteps,
    StepTimes stepTimes)
    implements TransportContext {
  @Override
  public Optional<String> setting(String name) {
    return settings.setting(name);
  }

  @Override
  public <T> Optional<T> find(Setting<T> setting) {
    return settings.find(setting);
  }

  @Override
  public Support directAccess(NetDevice net, boolean reads) {
    return distances.directAccess(net, reads);
  }

  @Override
  public Support directAccess(PeerInfo peer) {
    return peerDistances.directAccess(peer);
  }

  @Override
  public List<NearNet> nearestNets() {
    return distances.nearest();
  }

  @Override
  public int netChannels() {
    return distances.channels();
  }

  @Override
  public boolean takesTurns(int from, int to) {
    Optional<EgressRoutes.Egress> route = egress.flatMap(known -> known.of(from, to));
    return distances.haveNetsAlike(route.map(EgressRoutes.Egress::rank).orElse(from), to)
        && route.map(way -> distances.isNearest(way.rank(), way.net())).orElse(true);
  }

  @Override
  public boolean isNeighbour(int peer) {
    return neighbours.contains(peer);
  }

  @Override
  public Optional<NetEgress> egressTo(int peer) {
    return egress(rank, peer);
  }

  @Override
  public Optional<NetEgress> egressFrom(int peer) {
    return egress(peer, rank);
  }

  private Optional<NetEgress> egress(int from, int to) {
    return egress
        .flatMap(known -> known.of(from, to))
        .map(route -> new NetEgress(route.rank(), NetDistances.names(route.net())));
  }

  @Override
  public ByteChannel controlChannel(SocketChannel connected, boolean dialed) throws IOException {
    return tls.control(connected, dialed);
  }

  @Override
  public byte[] secret() {
    return secret.clone();
  }
}
