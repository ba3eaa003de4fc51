package org.nccl4j.api.init.engine;

import java.lang.System.Logger;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.nccl4j.api.init.connect.TransportRoutes;
import org.nccl4j.api.init.connect.VerifiedConnections;
import org.nccl4j.api.init.peers.HostLayout;
import org.nccl4j.api.init.peers.InitRequest;
import org.nccl4j.api.init.probe.ProbeObstacle;
import org.nccl4j.api.init.probe.Probing;
import org.nccl4j.api.init.topology.ChannelGraphs;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.plan.cost.RankPlacement;
import org.nccl4j.api.plan.cost.TunedTable;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.window.UnreachedPairs;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.Device;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.kernel.KernelDevice;
import org.nccl4j.device.kernel.KernelDevice.BlockRoom;

/**
 * A rank's capabilities, exchanged so that all ranks make the same choices. As bytes: kind, reach,
 * unreached, nvlink, carried, channels, channels of all pairs, lines, room, table, settings,
 * probed, network and model, with tabs between them.
 *
 * @param reach whether it loads and stores every other's memory
 * @param unreached GPUs of its machine or clique whose memory it does not load and store
 * @param nvlink whether over NVLink
 * @param carried whether a proxy carries some of its connections
 * @param channels that all its connections with neighbours have
 * @param pairChannels that all its connections have
 * @param lines whether all its connections have LL
 * @param room for blocks of its kernels
 * @param table the digest of the user's table of measured times, "" without one
 * @param settings by which it chooses
 * @param probed rank 0's message about a probe: see {@link Probing#shared}
 * @param network that it prefers between hosts, "" without one
 */
public record RankCapabilities(
    Device.Kind kind,
    boolean reach,
    Set<Integer> unreached,
    boolean nvlink,
    boolean carried,
    int channels,
    int pairChannels,
    boolean lines,
    BlockRoom room,
    String table,
    TuningSettings settings,
    String probed,
    String network,
    String model) {
  private static final Logger LOG = DebugLog.of("INIT");

  /**
   * A rank's ways to the others.
   *
   * @param neighbours to which rings, trees and the like lead
   */
  public record Ways(VerifiedConnections verified, Set<Integer> neighbours, ChannelGraphs graphs) {}

  public static RankCapabilities of(
      InitRequest request,
      List<PeerInfo> peers,
      Ways ways,
      Optional<TunedTable> tuned,
      String probed) {
    VerifiedConnections verified = ways.verified;
    List<TransportRoutes.NamedTransport> routes = verified.routes();
    Device self = request.device();
    KernelDevice device = (KernelDevice) self;
    boolean reach = reaches(routes);
    PeerInfo own =
        peers.stream().filter(peer -> routes.get(peer.rank()) == null).findFirst().orElseThrow();
    boolean nvlink =
        reach
            && peers.stream()
                .allMatch(
                    peer ->
                        own.sharesFabric(peer)
                            || device.nvlink(peer.deviceId()).orElse(ways.graphs.isByNvlink()));
    boolean windows = ProbeObstacle.ofWindows(request.settings(), self).isEmpty();
    // A model's times were measured with windows, and would ask for their space; and
    // with a GPU for each rank: kernels that take all of a GPU would wait for one without room.
    String model =
        self.name()
            + Probing.suffix(request, tuned)
            + (windows ? "" : " without windows")
            + (areApart(peers) ? "" : " for several");
    String table = tuned.map(t -> Integer.toHexString(t.digest())).orElse("");
    return new RankCapabilities(
        self.kind(),
        reach,
        unreached(peers, own, routes),
        nvlink,
        !verified.late().isEmpty() || !verified.links().proxyHandlers().isEmpty(),
        verified.links().channels(ways.neighbours::contains),
        verified.links().channels(peer -> true),
        verified.links().lines(),
        device.blockRoom().sharedBy(onDevice(peers, own)),
        table,
        TuningSettings.of(request.settings(), self.kind()),
        probed,
        own.nets().isEmpty() ? "" : own.nets().get(0),
        model);
  }

  /**
   * True if a rank loads and stores all others' memory.
   *
   * @param routes to all ranks, null to itself
   */
  static boolean reaches(List<TransportRoutes.NamedTransport> routes) {
    return routes.stream().allMatch(route -> route == null || route.provider().sharesMemory());
  }

  /** Processes of a machine can always map each other's memory; GPUs may be unable to. */
  private static Set<Integer> unreached(
      List<PeerInfo> peers, PeerInfo own, List<TransportRoutes.NamedTransport> routes) {
    Set<Integer> unreached = new TreeSet<>();
    for (PeerInfo peer : peers) {
      TransportRoutes.NamedTransport route = routes.get(peer.rank());
      if (own.deviceKind() == Device.Kind.CUDA
          && peer.node().equals(own.node())
          && route != null
          && !route.provider().sharesMemory()) {
        unreached.add(peer.rank());
      }
    }
    return unreached;
  }

  /** Returns the pairs that do not reach each other. */
  public static UnreachedPairs unreached(List<byte[]> all) {
    return new UnreachedPairs(decoded(all).stream().map(RankCapabilities::unreached).toList());
  }

  /** True if no two ranks have the same device. */
  private static boolean areApart(List<PeerInfo> peers) {
    return peers.get(0).deviceKind() == Device.Kind.HOST
        || peers.stream().map(HostLayout::deviceOf).distinct().count() == peers.size();
  }

  /** Ranks on a rank's device, with itself. */
  private static int onDevice(List<PeerInfo> peers, PeerInfo own) {
    Object device = HostLayout.deviceOf(own);
    return (int) peers.stream().filter(peer -> HostLayout.deviceOf(peer).equals(device)).count();
  }

  public byte[] toBytes() {
    return String.join(
            "\t",
            kind.name(),
            Boolean.toString(reach),
            unreached.stream().map(String::valueOf).collect(Collectors.joining(" ")),
            Boolean.toString(nvlink),
            Boolean.toString(carried),
            Integer.toString(channels),
            Integer.toString(pairChannels),
            Boolean.toString(lines),
            room.blocks() + " " + room.messageBlocks(),
            table,
            settings.text(),
            probed,
            network,
            model)
        .getBytes(StandardCharsets.UTF_8);
  }

  private static RankCapabilities fromBytes(byte[] bytes) {
    String[] words = new String(bytes, StandardCharsets.UTF_8).split("\t", 14);
    return new RankCapabilities(
        Device.Kind.valueOf(words[0]),
        Boolean.parseBoolean(words[1]),
        numbers(words[2]),
        Boolean.parseBoolean(words[3]),
        Boolean.parseBoolean(words[4]),
        Integer.parseInt(words[5]),
        Integer.parseInt(words[6]),
        Boolean.parseBoolean(words[7]),
        room(words[8]),
        words[9],
        TuningSettings.fromText(words[10]),
        words[11],
        words[12],
        words[13]);
  }

  private static Set<Integer> numbers(String text) {
    return text.isEmpty()
        ? Set.of()
        : Arrays.stream(text.split(" ")).map(Integer::valueOf).collect(Collectors.toSet());
  }

  private static BlockRoom room(String text) {
    int space = text.indexOf(' ');
    return new BlockRoom(
        Integer.parseInt(text.substring(0, space)), Integer.parseInt(text.substring(space + 1)));
  }

  /** The capabilities by rank; one object for ranks after each other that have the same. */
  private static List<RankCapabilities> decoded(List<byte[]> all) {
    List<RankCapabilities> facts = new ArrayList<>();
    for (int rank = 0; rank < all.size(); rank++) {
      boolean same = rank > 0 && Arrays.equals(all.get(rank - 1), all.get(rank));
      facts.add(same ? facts.get(rank - 1) : fromBytes(all.get(rank)));
    }
    return facts;
  }

  /**
   * Returns the capabilities that all ranks have.
   *
   * @param self this rank
   * @param cores that the ranks of a host have together, on the host with the fewest
   * @param late whether GPUs of other hosts are connected when they first need it
   * @param tuned this rank's table
   * @throws InvalidUsageException if ranks have different tables or settings
   */
  public static CommunicatorProfile common(
      int self,
      List<byte[]> all,
      HostLayout hosts,
      int cores,
      boolean late,
      Optional<TunedTable> tuned) {
    List<RankCapabilities> facts = decoded(all);
    RankCapabilities first = facts.get(0);
    for (int rank = 1; rank < facts.size(); rank++) {
      if (facts.get(rank).equals(facts.get(rank - 1))) {
        continue;
      }
      first.settings.check(0, facts.get(rank).settings, rank);
      if (!facts.get(rank).table.equals(first.table)) {
        throw new InvalidUsageException(
            ErrorId.SETTINGS_DIFFER,
            ("ranks 0 and %d have different tables of measured times and would choose different"
                    + " algorithms")
                .formatted(rank),
            "give all ranks the same file in NCCL4J_COSTS_FILE, or none");
      }
    }
    CommunicatorProfile common =
        new CommunicatorProfile(
            facts.size(),
            first.kind,
            facts.stream().allMatch(f -> f.model.equals(first.model)) ? first.model : "",
            facts.stream().allMatch(RankCapabilities::reach),
            facts.stream().allMatch(RankCapabilities::nvlink),
            new RankPlacement(
                    hosts.ranks(),
                    facts.stream().anyMatch(RankCapabilities::carried),
                    facts.stream().mapToInt(RankCapabilities::channels).min().orElseThrow(),
                    facts.stream().allMatch(RankCapabilities::lines),
                    facts.stream().allMatch(f -> f.network.equals(first.network))
                        ? first.network
                        : "")
                .withPairChannels(
                    facts.stream().mapToInt(RankCapabilities::pairChannels).min().orElseThrow())
                .withLate(late),
            Optional.empty(),
            tuned,
            cores,
            facts.stream().map(RankCapabilities::room).reduce(BlockRoom::least).orElseThrow());
    if (self == 0 && common.spread().carried()) {
      TuningSettings.warnings(facts.stream().map(RankCapabilities::settings).toList())
          .forEach(warning -> LOG.log(Logger.Level.WARNING, warning));
    }
    tuned.ifPresent(table -> warn(self, table, first.model, common));
    return common.isAlike()
        ? tuned.or(() -> Probing.result(first.probed)).map(common::with).orElse(common)
        : common;
  }

  /** Says why a table is not used: rank 0 if it is the hosts, which all ranks know. */
  private static void warn(int self, TunedTable table, String model, CommunicatorProfile common) {
    int hosts = common.spread().hosts();
    String ranks = common.inTables();
    if (hosts > 1 && !table.hasTimes(ranks)) {
      if (self == 0) {
        LOG.log(
            Logger.Level.WARNING,
            "{0} (NCCL4J_COSTS_FILE) is not used: {1}, and these ranks are on {2} hosts; {3}, or"
                + " choose algorithms between hosts by NCCL_ALGO or NCCL_TUNER_PLUGIN",
            table.file(),
            ranks.isEmpty()
                ? "a table has times of hosts with as many ranks each and one network"
                : "it has no times of " + ranks,
            hosts,
            ranks.isEmpty() ? "unset it" : "measure them with ./nccl tune --launched");
      }
    } else if (!table.device().equals(model)) {
      LOG.log(
          Logger.Level.WARNING,
          "{0} has times of {1}, and is not used for {2}",
          table.file(),
          table.device(),
          model);
    }
  }

  /** Returns rank 0's message about a probe: see {@link Probing#shared}. */
  public static String probed(List<byte[]> all) {
    return fromBytes(all.get(0)).probed;
  }
}
