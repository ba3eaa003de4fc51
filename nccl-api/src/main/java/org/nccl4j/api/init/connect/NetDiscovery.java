package org.nccl4j.api.init.connect;

import java.lang.System.Logger;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.init.peers.InitRequest;
import org.nccl4j.api.init.topology.HostNics;
import org.nccl4j.api.registry.TransportRegistry;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.settings.TopologySettings;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.api.spi.Setting;
import org.nccl4j.api.spi.Support;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.Device;
import org.nccl4j.device.NcclException;
import org.nccl4j.topo.PathType;

/**
 * The networks that can be used on a rank.
 *
 * @param providers best first
 * @param asked the answers of all networks that the settings allow, a line for each
 * @param nics their devices; not asked for where the rank is on the host device
 */
public record NetDiscovery(List<NetProvider> providers, String asked, HostNics nics) {
  private static final Logger LOG = DebugLog.of("NET");
  private static final String INFINIBAND = "IB";

  private record Context(int rank, byte[] secret, Settings settings) implements NetContext {
    @Override
    public byte[] secret() {
      return secret.clone();
    }

    @Override
    public Optional<String> setting(String name) {
      return settings.setting(name);
    }

    @Override
    public <T> Optional<T> find(Setting<T> setting) {
      return settings.find(setting);
    }
  }

  /** Asks every network that the settings allow, and logs what each said. */
  public static NetDiscovery of(InitRequest request, Bootstrap bootstrap) {
    NetContext context = new Context(bootstrap.rank(), bootstrap.secret(), request.settings());
    StringBuilder table = new StringBuilder();
    List<NetProvider> usable = new ArrayList<>();
    for (NetProvider net : TransportRegistry.nets(request.settings().get(Settings.NCCL_NET))) {
      Support support = net.support(context);
      table.append(
          "%n  %s: %s, %s"
              .formatted(net.name(), support.possible() ? "yes" : "no", support.reason()));
      if (support.possible()) {
        usable.add(net);
      }
    }
    LOG.log(request.logLevel("INIT", "NET"), "rank {0}: networks{1}", bootstrap.rank(), table);
    if (bootstrap.rank() == 0 && !usable.isEmpty()) {
      unmerged(request.settings(), usable.get(0).name())
          .forEach(line -> LOG.log(Logger.Level.WARNING, line));
    }
    boolean gpu = request.device().kind() == Device.Kind.CUDA;
    return new NetDiscovery(
        List.copyOf(usable), table.toString(), gpu ? nics(usable, context) : HostNics.UNKNOWN);
  }

  /** A network that cannot list its devices reports the error when it is used. */
  static HostNics nics(List<NetProvider> providers, NetContext context) {
    Set<String> preferred = new HashSet<>();
    Set<String> reachingGpus = new HashSet<>();
    for (NetProvider provider : providers) {
      try (Net net = provider.open(context)) {
        for (NetDevice device : net.devices()) {
          if (provider == providers.get(0)) {
            preferred.addAll(device.names());
          }
          if (device.pointers().size() > 1) {
            reachingGpus.addAll(device.names());
          }
        }
      } catch (NcclException e) {
        LOG.log(
            Logger.Level.DEBUG,
            "the devices of network {0} cannot be listed: {1}",
            provider.name(),
            e);
      }
    }
    return new HostNics(Set.copyOf(preferred), Set.copyOf(reachingGpus));
  }

  /**
   * Says which settings merge several cards in NCCL and not here.
   *
   * @param network that is used where the other rank has it
   */
  static List<String> unmerged(Settings settings, String network) {
    List<String> lines = new ArrayList<>();
    String policy = settings.get(TopologySettings.NCCL_NET_MERGE_POLICY);
    if (!policy.isEmpty()) {
      lines.add(
          ("NCCL_NET_MERGE_POLICY=%s affects only nccl topo, which has the rails of a topology"
                  + " file. Name the devices of each rail in NCCL_NET_FORCE_MERGE to merge these")
              .formatted(policy));
    }
    String level = settings.get(TopologySettings.NCCL_NET_MERGE_LEVEL);
    boolean cards = PathType.level(level).filter(PathType.PIX::within).isPresent();
    if (cards && !network.equals(INFINIBAND)) {
      lines.add(
          ("NCCL_NET_MERGE_LEVEL=%s does not affect network %s: only InfiniBand and RoCE devices"
                  + " are merged. Sockets of a connection use several interfaces with"
                  + " NCCL_SOCKET_NTHREADS")
              .formatted(level, network));
    }
    return lines;
  }

  public List<String> names() {
    return providers.stream().map(NetProvider::name).toList();
  }
}
