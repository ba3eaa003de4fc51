package org.nccl4j.api.init.engine;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;
import org.nccl4j.api.init.peers.HostLayout;
import org.nccl4j.api.init.peers.InitRequest;
import org.nccl4j.api.init.probe.ProbeObstacle;
import org.nccl4j.api.init.probe.Probing;
import org.nccl4j.api.init.probe.SwitchProbe;
import org.nccl4j.api.init.topology.ChannelGraphs;
import org.nccl4j.api.multicast.MulticastProvider;
import org.nccl4j.api.multicast.MulticastProvider.Exchange;
import org.nccl4j.api.multicast.MulticastProvider.Offer;
import org.nccl4j.api.multicast.MulticastProvider.Outline;
import org.nccl4j.api.multicast.MulticastProvider.Team;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.plan.cost.RankPlacement;
import org.nccl4j.api.plan.cost.TunedTable;
import org.nccl4j.api.registry.TransportRegistry;
import org.nccl4j.api.settings.PlanSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.Setting;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.Device;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.kernel.KernelDevice;
import org.nccl4j.device.kernel.KernelDevice.BlockRoom;

/**
 * Finds whether a communicator with a rank on each of some GPUs of this machine would use NVLS, by
 * the decision of {@link NvlsSetup} and without a communicator. None of the driver's multicast
 * functions is called.
 */
public final class NvlsForecast {
  /** Transport between GPUs at a switch. */
  private static final String TRANSPORT = "P2P";

  private final InitRequest request;
  private final List<CudaDevice> gpus;
  private final List<PeerInfo> peers;
  private final Optional<TunedTable> tuned;

  /** Null before it is asked for: the search takes its time. */
  private ChannelGraphs graphs;

  private NvlsForecast(Settings settings, List<CudaDevice> gpus) {
    this.request = new InitRequest("forecast", gpus.get(0), settings);
    this.gpus = gpus;
    this.peers =
        IntStream.range(0, gpus.size())
            .mapToObj(
                rank ->
                    new PeerInfo(
                        rank, "this host", "", "", 0, Device.Kind.CUDA, gpus.get(rank).id()))
            .toList();
    this.tuned = TunedTable.read(settings.get(PlanSettings.NCCL4J_COSTS_FILE));
  }

  /**
   * The answer.
   *
   * @param isUsed whether NVLS is used for operations for which it is the fastest
   * @param reason of it, as a clause
   */
  public record Answer(boolean isUsed, String reason) {}

  /**
   * The answer for some GPUs.
   *
   * @param gpus one at least, each once
   * @throws org.nccl4j.device.NcclException for wrong settings and files that they name
   */
  public static Answer of(Settings settings, List<CudaDevice> gpus) {
    return new NvlsForecast(settings, gpus).answer();
  }

  private Answer answer() {
    Settings settings = request.settings();
    Optional<MulticastProvider> provider = TransportRegistry.multicast();
    List<Offer> offers = new ArrayList<>();
    gpus.forEach(gpu -> offers.add(NvlsDecision.offer(provider, gpu, settings)));
    NvlsDecision decision = NvlsDecision.of(peers, offers, () -> graphs().nvlsChannels());
    if (decision.refusal() != null) {
      return new Answer(false, decision.refusal());
    }
    CommunicatorProfile facts = facts();
    Team team = NvlsTeams.of(request, HostLayout.of(peers), graphs(), facts).of(0);
    Exchange alike = new Alike(gpus.size());
    Outline outline =
        provider
            .orElseThrow()
            .outline(
                new FirstRank(peers, gpus.get(0), settings),
                team,
                offers.get(0).form().orElseThrow(),
                alike);
    if (outline.nvls().isEmpty()) {
      return new Answer(false, outline.reason());
    }
    String reason = "all ranks have it: " + outline.reason();
    if (decision.wanted()) {
      return new Answer(true, "a setting asks for it and " + reason);
    }
    SwitchProbe probe = SwitchProbe.of(request, ranks(), tuned, this::conditions);
    SwitchTrial trial =
        new SwitchTrial(probe.shared(), probe, TuningSettings.filter(settings), facts);
    String slow = trial.speed().isEmpty() ? "" : trial.slowness(outline.nvls().get(), alike);
    return slow.isEmpty() ? new Answer(true, reason + trial.text()) : new Answer(false, slow);
  }

  private ChannelGraphs graphs() {
    if (graphs == null) {
      graphs = ChannelGraphs.ahead(gpus, peers, request.settings());
    }
    return graphs;
  }

  private String conditions() {
    return TuningSettings.of(request.settings(), Device.Kind.CUDA).conditions();
  }

  private Probing.Ranks ranks() {
    return new Probing.Ranks(0, gpus.size(), 1, graphs().topology(), TRANSPORT);
  }

  /** The facts about all ranks, with the times of an earlier probe where they would be used. */
  private CommunicatorProfile facts() {
    boolean nvlink = gpus.stream().allMatch(gpu -> gpus.stream().allMatch(to -> isLinked(gpu, to)));
    CommunicatorProfile facts =
        new CommunicatorProfile(
            gpus.size(),
            Device.Kind.CUDA,
            model(),
            nvlink,
            nvlink,
            new RankPlacement(
                1, gpus.size(), /* carried= */ false, ConnectionLayout.CHANNELS, /* lines= */ true),
            graphs().topology(),
            tuned,
            Runtime.getRuntime().availableProcessors(),
            gpus.stream().map(KernelDevice::blockRoom).reduce(BlockRoom::least).orElseThrow());
    return facts.isAlike() && tuned.isEmpty()
        ? Probing.result(Probing.of(request, ranks(), tuned, this::conditions).shared())
            .map(facts::with)
            .orElse(facts)
        : facts;
  }

  private boolean isLinked(CudaDevice gpu, CudaDevice peer) {
    return gpu == peer || gpu.nvlink(peer.id()).orElse(graphs().isByNvlink());
  }

  private String model() {
    String first = gpus.get(0).name();
    boolean windows =
        gpus.stream().allMatch(gpu -> ProbeObstacle.ofWindows(request.settings(), gpu).isEmpty());
    return gpus.stream().allMatch(gpu -> gpu.name().equals(first))
        ? first + Probing.suffix(request, tuned) + (windows ? "" : " without windows")
        : "";
  }

  /** An exchange among ranks that all say the same. */
  private record Alike(int nRanks) implements Exchange {
    @Override
    public List<byte[]> allGather(byte[] mine) {
      return Collections.nCopies(nRanks, mine);
    }

    @Override
    public long endNanos() {
      return System.nanoTime();
    }
  }

  /** The first rank, as a provider sees it that lays its memory out. */
  private record FirstRank(List<PeerInfo> peers, CudaDevice device, Settings settings)
      implements TransportContext {
    @Override
    public int rank() {
      return 0;
    }

    @Override
    public ConnectionLayout layout() {
      return device.connectionLayout(peers.size());
    }

    @Override
    public List<NetProvider> nets() {
      return List.of();
    }

    @Override
    public byte[] secret() {
      return new byte[0]; // nothing is connected
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
}
