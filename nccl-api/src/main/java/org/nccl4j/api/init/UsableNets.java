package org.nccl4j.api.init;

import java.lang.System.Logger;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.registry.TransportRegistry;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.api.spi.Support;
import org.nccl4j.device.DebugLog;

/**
 * The networks that can be used on a rank.
 *
 * @param providers best first
 * @param asked what each that the settings allow has said, a line for each
 */
record UsableNets(List<NetProvider> providers, String asked) {
  private static final Logger LOG = DebugLog.of("NET");
  private static final List<String> FUSION =
      List.of("NCCL_NET_MERGE_LEVEL", "NCCL_NET_FORCE_MERGE", "NCCL_NET_MERGE_POLICY");

  private record Context(int rank, byte[] secret, Settings settings) implements NetContext {
    @Override
    public byte[] secret() {
      return secret.clone();
    }

    @Override
    public Optional<String> setting(String name) {
      return settings.text(name);
    }
  }

  /** Asks every network that the settings allow, and logs what each said. */
  static UsableNets of(InitRequest request, Bootstrap bootstrap) {
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
      warnOfFusion(request.settings());
    }
    return new UsableNets(List.copyOf(usable), table.toString());
  }

  /** Says of settings that NCCL hands to networks which send over several cards as one. */
  private static void warnOfFusion(Settings settings) {
    for (String name : FUSION) {
      Optional<String> text = settings.text(name);
      if (text.isPresent() && !(name.equals(FUSION.get(0)) && text.get().equals("LOC"))) {
        LOG.log(
            Logger.Level.WARNING,
            "{0}={1} has no effect on communicators: no network here makes one device of several"
                + " cards. It acts in nccl topo; name cards by NCCL_SOCKET_IFNAME or NCCL_IB_HCA",
            name,
            text.get());
      }
    }
  }

  List<String> names() {
    return providers.stream().map(NetProvider::name).toList();
  }
}
