package org.nccl4j.api.init.engine;

import java.nio.charset.StandardCharsets;
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
import org.nccl4j.api.plan.cost.TunedTable;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;
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

  static RankCapabilities fromBytes(byte[] bytes) {
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
}
