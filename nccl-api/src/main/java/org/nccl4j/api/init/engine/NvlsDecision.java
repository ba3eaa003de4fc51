package org.nccl4j.api.init.engine;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.IntSupplier;
import org.nccl4j.api.init.peers.HostLayout;
import org.nccl4j.api.multicast.MulticastProvider;
import org.nccl4j.api.multicast.MulticastProvider.Offer;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;
import org.nccl4j.device.kernel.MulticastObject.Form;
import org.nccl4j.operation.Algorithm;

/**
 * The decision whether the ranks of a communicator use NVLS, the same on all of them. It follows
 * from their offers, their machines and the topology. Nothing is allocated, and none of the
 * driver's multicast functions is called.
 *
 * @param wanted whether a setting of a rank asks for NVLS, so that a refusal is worth a warning
 * @param refusal why they do not use it, as a clause; null if they may
 */
record NvlsDecision(boolean wanted, String refusal) {
  /**
   * Fewest ranks of each machine for which NVLS is used unasked: among two it spares the links
   * nothing.
   */
  static final int FEWEST = 3;

  /**
   * The decision.
   *
   * @param offers of all ranks
   * @param switchChannels channels that the topology search gives NVLS, or 0; asked only where the
   *     decision depends on it
   */
  static NvlsDecision of(List<PeerInfo> peers, List<Offer> offers, IntSupplier switchChannels) {
    HostLayout hosts = HostLayout.of(peers);
    boolean wanted = offers.stream().anyMatch(Offer::wanted);
    String refusal = refusal(peers, hosts, offers);
    return new NvlsDecision(
        wanted, refusal == null && !wanted ? unaskedRefusal(hosts, switchChannels) : refusal);
  }

  /** The fewest ranks of a machine that may use NVLS, by the offer of one of them. */
  static int fewestRanks(Offer offer) {
    return offer.form().isEmpty() ? Integer.MAX_VALUE : fewestRanks(offer.wanted());
  }

  /** The fewest ranks of a machine that may use NVLS where there is a provider. */
  static int fewestRanks(boolean wanted) {
    return wanted ? 2 : FEWEST;
  }

  /**
   * True if ranks on GPUs of several machines may use NVLS, by what all of them know before their
   * offers.
   */
  static boolean mayBeAmong(HostLayout hosts, Settings settings, IntSupplier switchChannels) {
    return absent(settings).wanted()
        || settings.get(Settings.NCCL4J_NVLS_MODE).equals("auto")
            && settings.get(Settings.NCCL_NVLS_ENABLE) != 0
            && AlgorithmFilter.of(settings).allows(Algorithm.NVLS)
            && unaskedRefusal(hosts, switchChannels) == null;
  }

  /** A rank's offer. */
  static Offer offer(Optional<MulticastProvider> provider, Device device, Settings settings) {
    return provider.map(by -> by.offer(device, settings)).orElseGet(() -> absent(settings));
  }

  /** The offer of a rank without a provider; wanted if the settings ask for NVLS. */
  static Offer absent(Settings settings) {
    boolean wanted =
        switch (settings.get(Settings.NCCL4J_NVLS_MODE)) {
          case "emulated", "hardware" -> true;
          case "off" -> false;
          default -> AlgorithmFilter.of(settings).demandsNvls();
        };
    return new Offer(
        Optional.empty(),
        wanted,
        "nccl-transport-nvls is not on the class path or module path; add this artifact, or remove"
            + " NVLS from NCCL_ALGO and set NCCL4J_NVLS_MODE=off");
  }

  /** Why these offers lead to nothing, the same on all ranks; null if they lead to something. */
  private static String refusal(List<PeerInfo> peers, HostLayout hosts, List<Offer> offers) {
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
    if (peers.stream().anyMatch(peer -> peer.deviceKind() != peers.get(0).deviceKind())) {
      return "its ranks are on devices of several kinds";
    }
    if (first.equals(Optional.of(Form.EMULATED))
        && hosts.ranks().stream().anyMatch(ranks -> areApart(peers, ranks))) {
      return "its ranks are on several hosts or in containers of one NVLink clique, and the"
          + " emulation of multicast objects is not shared between hosts";
    }
    return peers.get(0).deviceKind() == Device.Kind.CUDA ? sharedDevice(peers, hosts) : null;
  }

  private static boolean areApart(List<PeerInfo> peers, List<Integer> ranks) {
    PeerInfo first = peers.get(ranks.get(0));
    return ranks.stream().anyMatch(rank -> !first.sharesHost(peers.get(rank)));
  }

  /** On one machine; GPUs of several may be called the same. */
  private static String sharedDevice(List<PeerInfo> peers, HostLayout hosts) {
    for (List<Integer> ranks : hosts.ranks()) {
      Map<String, Integer> first = new HashMap<>();
      for (int rank : ranks) {
        Integer other = first.putIfAbsent(device(peers, rank), rank);
        if (other != null) {
          return "ranks %d and %d share a GPU".formatted(other, rank);
        }
      }
    }
    return null;
  }

  private static String device(List<PeerInfo> peers, int rank) {
    return HostLayout.deviceOf(peers.get(rank));
  }

  /** Why NVLS is not used unless somebody asks for it; null if it is. */
  private static String unaskedRefusal(HostLayout hosts, IntSupplier switchChannels) {
    if (hosts.fewestRanks() < FEWEST) {
      return "there are fewer than %d ranks%s, and no setting asks for it"
          .formatted(FEWEST, hosts.count() == 1 ? "" : " on a machine");
    }
    return switchChannels.getAsInt() == 0
        ? "the topology shows no NVSwitch that combines data, and no setting asks for it"
        : null;
  }
}
