package org.nccl4j.api.init.engine;

import java.lang.System.Logger;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.function.BiFunction;
import java.util.stream.IntStream;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.init.connect.TransportContextImpl;
import org.nccl4j.api.init.exchange.HostLayout;
import org.nccl4j.api.init.exchange.InitRequest;
import org.nccl4j.api.init.topology.ChannelGraphs;
import org.nccl4j.api.registry.TransportRegistry;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.Multicast;
import org.nccl4j.api.spi.MulticastProvider;
import org.nccl4j.api.spi.MulticastProvider.Offer;
import org.nccl4j.api.spi.MulticastProvider.Team;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.kernel.MulticastObject.Form;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.symmetric.ShareableMemory;

/**
 * Makes NVLS for a communicator. All ranks exchange their requirements; if these are equal, they
 * make it together. If NVLS is requested and not available, rank 0 warns once, and the communicator
 * works without it.
 */
public final class NvlsSetup implements AutoCloseable {
  private static final Logger LOG = DebugLog.of("NVLS");
  private static final String SEPARATOR = "\t";

  private final Multicast multicast;
  private final Nvls nvls;

  /** Null where there is nothing to leave together. */
  private final NvlsTeardown teardown;

  private NvlsSetup(Multicast multicast, Nvls nvls, NvlsTeardown teardown) {
    this.multicast = multicast;
    this.nvls = nvls;
    this.teardown = teardown;
  }

  /** Returns the setup of a communicator without NVLS. */
  public static NvlsSetup none() {
    return new NvlsSetup(null, null, null);
  }

  /**
   * Takes part in the decision and, if it is yes, in the making. Every rank calls it.
   *
   * @param channels that all connections of all ranks have
   */
  public static NvlsSetup open(
      InitRequest request,
      TransportContextImpl context,
      ChannelGraphs graphs,
      int channels,
      Bootstrap bootstrap) {
    Settings settings = request.settings();
    List.of(
            Settings.NCCL4J_NVLS_MODE,
            Settings.NCCL_NVLS_ENABLE,
            Settings.NCCL_NVLS_NCHANNELS,
            Settings.NCCL_NVLS_CHUNKSIZE)
        .forEach(settings::get);
    Optional<MulticastProvider> provider = TransportRegistry.multicast();
    Offer mine =
        provider.map(p -> p.offer(request.device(), settings)).orElseGet(() -> absent(settings));
    List<Offer> offers = bootstrap.allGather(encode(mine)).stream().map(NvlsSetup::decode).toList();
    HostLayout hosts = HostLayout.of(context.peers());
    String refusal = refusal(context, hosts, offers);
    if (refusal != null) {
      Logger.Level level =
          context.rank() == 0 && offers.stream().anyMatch(Offer::wanted)
              ? Logger.Level.WARNING
              : Logger.Level.DEBUG;
      LOG.log(level, "communicator {0} is without NVLS: {1}", request.name(), refusal);
      return none();
    }
    Form form = mine.form().orElseThrow();
    NvlsTeams teams = new NvlsTeams(hosts, graphs.nvlsHeads(), graphs.nvlsChannels(), channels);
    Team team = teams.of(context.rank());
    Multicast made = provider.orElseThrow().open(context, team, form, exchange(bootstrap));
    if (made.nvls().isEmpty()) {
      LOG.log(
          context.rank() == 0 ? Logger.Level.WARNING : Logger.Level.DEBUG,
          "communicator {0} is without NVLS: {1}",
          request.name(),
          made.reason());
    } else {
      LOG.log(
          request.logLevel("INIT", "NVLS"), "rank {0}: NVLS, {1}", context.rank(), made.reason());
    }
    if (made.nvls().isEmpty()) {
      return new NvlsSetup(made, null, null);
    }
    Nvls place = made.nvls().get().among(hosts.count(), teams.trees(context.rank()));
    return new NvlsSetup(made, place, teardown(context, bootstrap, made));
  }

  /** The offer of a rank without a provider; wanted if the settings ask for NVLS. */
  static Offer absent(Settings settings) {
    boolean wanted =
        switch (settings.get(Settings.NCCL4J_NVLS_MODE)) {
          case "emulated", "hardware" -> true;
          case "off" -> false;
          default -> TuningSettings.filter(settings).demandsNvls();
        };
    return new Offer(
        Optional.empty(),
        wanted,
        "nccl-transport-nvls is not on the class path or module path; add this artifact, or remove"
            + " NVLS from NCCL_ALGO and set NCCL4J_NVLS_MODE=off");
  }

  private static MulticastProvider.Exchange exchange(Bootstrap bootstrap) {
    return new MulticastProvider.Exchange() {
      @Override
      public List<byte[]> allGather(byte[] mine) {
        return bootstrap.allGather(mine);
      }

      @Override
      public long endNanos() {
        return bootstrap.exchangeEnd();
      }
    };
  }

  /** Why these offers lead to nothing, the same on all ranks; null if they lead to something. */
  private static String refusal(
      TransportContextImpl context, HostLayout hosts, List<Offer> offers) {
    int nRanks = offers.size();
    Optional<Form> first = offers.get(0).form();
    for (int rank = 0; rank < nRanks; rank++) {
      if (offers.get(rank).form().isEmpty()) {
        return "rank %d: %s".formatted(rank, offers.get(rank).reason());
      }
      if (!offers.get(rank).form().equals(first)) {
        return "rank %d has it %s, rank 0 %s; set NCCL4J_NVLS_MODE alike on all ranks"
            .formatted(rank, offers.get(rank).form().orElseThrow(), first.orElseThrow());
      }
    }
    if (nRanks == 1) {
      return "there is one rank";
    }
    if (context.peers().stream().anyMatch(peer -> peer.deviceKind() != kind(context))) {
      return "its ranks are on devices of several kinds";
    }
    if (hosts.ranks().stream().anyMatch(ranks -> areApart(context.peers(), ranks))) {
      return "its ranks are on several hosts of one NVLink clique, and multicast objects are not"
          + " shared between hosts in this version";
    }
    return context.device().kind() == Device.Kind.CUDA ? sharedDevice(context, hosts) : null;
  }

  private static boolean areApart(List<PeerInfo> peers, List<Integer> ranks) {
    return ranks.stream().map(rank -> peers.get(rank).hostId()).distinct().count() > 1;
  }

  private static Device.Kind kind(TransportContextImpl context) {
    return context.peers().get(0).deviceKind();
  }

  /** On one machine; GPUs of several may be called the same. */
  private static String sharedDevice(TransportContextImpl context, HostLayout hosts) {
    int n = context.peers().size();
    return IntStream.range(0, n * n)
        .filter(pair -> pair / n < pair % n)
        .filter(pair -> hosts.hostOf(pair / n) == hosts.hostOf(pair % n))
        .filter(pair -> device(context, pair / n).equals(device(context, pair % n)))
        .mapToObj(pair -> "ranks %d and %d share a GPU".formatted(pair / n, pair % n))
        .findFirst()
        .orElse(null);
  }

  private static String device(TransportContextImpl context, int rank) {
    return context.peers().get(rank).deviceId();
  }

  private static byte[] encode(Offer offer) {
    String form = offer.form().map(Form::name).orElse("");
    return String.join(SEPARATOR, form, Boolean.toString(offer.wanted()), offer.reason())
        .getBytes(StandardCharsets.UTF_8);
  }

  private static Offer decode(byte[] bytes) {
    String[] parts = new String(bytes, StandardCharsets.UTF_8).split(SEPARATOR, 3);
    Optional<Form> form =
        List.of(Form.values()).stream().filter(f -> f.name().equals(parts[0])).findFirst();
    return new Offer(
        form,
        parts.length > 1 && Boolean.parseBoolean(parts[1]),
        parts.length > 2 ? parts[2] : "runs another version of nccl4j");
  }

  private static NvlsTeardown teardown(
      TransportContextImpl context, Bootstrap bootstrap, Multicast made) {
    try {
      return NvlsTeardown.of(context.peers(), bootstrap);
    } catch (RuntimeException | Error e) {
      made.close();
      throw e;
    }
  }

  /**
   * Frees what a rank holds, this among it: at once where there is no NVLS; after a failure when
   * all ranks of this process have come; else when no rank of any process needs this one's memory
   * any more.
   *
   * @param patience how long others are waited for
   */
  void leave(Bootstrap bootstrap, Duration patience, boolean failed, Runnable free) {
    if (teardown == null) {
      free.run();
    } else {
      teardown.leave(bootstrap, patience, failed, nvls.layout().bytes(), free);
    }
  }

  /** This rank's place in NVLS, or null. */
  public Nvls nvls() {
    return nvls;
  }

  /**
   * Returns the maker of multicast access to windows; null without NVLS, and for NVLS over many
   * machines.
   */
  public BiFunction<ShareableMemory, List<DeviceMemory>, Multicast.Cover> ofWindows(
      Bootstrap bootstrap) {
    return nvls == null || nvls.machines() > 1
        ? null
        : (own, views) -> multicast.cover(own, views, exchange(bootstrap));
  }

  @Override
  public void close() {
    if (multicast != null) {
      multicast.close();
    }
  }
}
