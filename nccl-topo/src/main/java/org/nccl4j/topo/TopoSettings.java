package org.nccl4j.topo;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * The settings that act on topology, search and tuning, under NCCL's names and with its defaults,
 * and their values. The values come from the caller: this module does not read the environment.
 */
public final class TopoSettings {
  /** The most channels that a communicator can have. */
  public static final int MAX_CHANNELS = 64;

  private static final int MANY = 1 << 20;
  private static final List<TopoSetting<?>> ALL = new ArrayList<>(); // before the first declaration

  public static final TopoSetting<NameLists> NCCL_ALGO =
      names(
          "NCCL_ALGO",
          "names such as Ring,Tree; ^ in front forbids them; allreduce: in front limits them to"
              + " one collective",
          "The algorithms that the planner may choose.");

  public static final TopoSetting<NameLists> NCCL_PROTO =
      names(
          "NCCL_PROTO",
          "names among LL, LL128, Simple; ^ in front forbids them",
          "The protocols that the planner may choose.");

  public static final TopoSetting<Integer> NCCL_MIN_CTAS =
      number("NCCL_MIN_CTAS", 1, 1, 64, "The fewest blocks of an operation on a GPU.");

  public static final TopoSetting<Integer> NCCL_MAX_CTAS =
      number(
          "NCCL_MAX_CTAS",
          MAX_CHANNELS,
          1,
          64,
          "The most blocks of an operation on a GPU; in a group, of a send and a receive"
              + " together. With 64 exchanges with experts have up to 128, and kernels that touch"
              + " one rank's memory alone as many as are of use.");

  public static final TopoSetting<Boolean> NCCL_SHM_DISABLE =
      flag("NCCL_SHM_DISABLE", false, "Forbids shared memory between processes.");

  public static final TopoSetting<Boolean> NCCL_P2P_DISABLE =
      flag("NCCL_P2P_DISABLE", false, "Forbids direct access to another rank's memory.");

  public static final TopoSetting<Integer> NCCL_NVLS_ENABLE =
      number(
          "NCCL_NVLS_ENABLE",
          2,
          0,
          2,
          "NVLS by the switch. 2: for 3 ranks or more of each machine, if the topology has an"
              + " NVSwitch with NVLS; 1: for 2 ranks or more, with a warning if it is not"
              + " available; 0: never, and the library calls none of the driver's multicast"
              + " functions.");

  public static final TopoSetting<Integer> NCCL_NVLS_NCHANNELS =
      number(
          "NCCL_NVLS_NCHANNELS",
          0,
          0,
          MAX_CHANNELS,
          "The number of channels of NVLS; 0: the device chooses.");

  public static final TopoSetting<String> NCCL_GRAPH_FILE =
      text(
          "NCCL_GRAPH_FILE",
          "",
          "the name of a graph file",
          "A file of rings and trees that replaces the search.");

  public static final TopoSetting<Optional<PathType>> NCCL_P2P_LEVEL =
      level(
          "NCCL_P2P_LEVEL",
          "The longest path over which GPUs access each other; unset: PXB, and SYS on AMD machines"
              + " with at most two GPUs. Others go through memory of the host.");

  public static final TopoSetting<Integer> NCCL_IGNORE_DISABLED_P2P =
      number(
          "NCCL_IGNORE_DISABLED_P2P",
          0,
          0,
          2,
          "1: no warning if the driver forbids peer access between NVLink neighbours; 2: the"
              + " driver is not asked.");

  public static final TopoSetting<Optional<PathType>> NCCL_NET_GDR_LEVEL =
      level(
          "NCCL_NET_GDR_LEVEL",
          "The longest path between a GPU and a NIC for GPUDirect; unset: P2C, and PXB with"
              + " NCCL_NET_GDR_C2C=0.");

  public static final TopoSetting<Boolean> NCCL_NET_GDR_READ =
      flag(
          "NCCL_NET_GDR_READ",
          false,
          "Allows NICs to read GPU memory too; if unset, where NVLink makes it worthwhile.");

  public static final TopoSetting<Boolean> NCCL_NET_GDR_C2C =
      flag("NCCL_NET_GDR_C2C", true, "Allows GPUDirect through a C2C link.");

  public static final TopoSetting<Boolean> NCCL_NET_GDR_MLOPART =
      flag("NCCL_NET_GDR_MLOPART", false, "Allows GPUDirect for partitions of a GPU.");

  public static final TopoSetting<Boolean> NCCL_NVB_DISABLE =
      flag("NCCL_NVB_DISABLE", false, "Forbids paths through another GPU.");

  public static final TopoSetting<Boolean> NCCL_PXN_DISABLE =
      flag(
          "NCCL_PXN_DISABLE",
          false,
          "Forbids sending through the NIC next to another GPU, over that GPU's memory (PXN).");

  public static final TopoSetting<Integer> NCCL_P2P_PXN_LEVEL =
      number(
          "NCCL_P2P_PXN_LEVEL",
          2,
          0,
          2,
          "The NIC of sends to another host. 0: the sender's own; 1: the NIC of the receiver's"
              + " rail if there is a path; 2: the NIC of the receiver's rail through the GPU"
              + " next to it.");

  public static final TopoSetting<Boolean> NCCL_PXN_C2C =
      flag("NCCL_PXN_C2C", true, "Allows PXN through NICs behind a C2C link.");

  public static final TopoSetting<Boolean> NCCL_NET_DISABLE_INTRA =
      flag("NCCL_NET_DISABLE_INTRA", false, "Forbids the network between GPUs of one host.");

  public static final TopoSetting<Boolean> NCCL_P2P_USE_CUDA_MEMCPY =
      flag(
          "NCCL_P2P_USE_CUDA_MEMCPY",
          false,
          "Counts GPUs that reach each other only through a third GPU as not connected, as"
              + " NCCL does for its copy engines.");

  public static final TopoSetting<Boolean> NCCL_TOPO_SPLIT_MLOPART =
      flag("NCCL_TOPO_SPLIT_MLOPART", true, "Counts partitions of a GPU as GPUs.");

  public static final TopoSetting<String> NCCL_NET_MERGE_LEVEL =
      matching(
          "NCCL_NET_MERGE_LEVEL",
          "PORT",
          "(PORT|LOC|PIX|PXB|P2C|PXN|PHB|SYS)?",
          "PORT, or LOC, PIX, PXB, PHB or SYS",
          "The longest path between NICs that count as one NIC: ports of one card (PORT), cards below"
              + " one PCIe switch (PIX), several switches (PXB), one CPU (PHB), all (SYS), or none"
              + " (LOC). Communicators merge InfiniBand and RoCE devices.");

  public static final TopoSetting<String> NCCL_NET_MERGE_POLICY =
      matching(
          "NCCL_NET_MERGE_POLICY",
          "",
          "(RAIL)?",
          "RAIL, or nothing",
          "In ./nccl topo alone: with RAIL, only NICs of one rail count as one NIC.");

  public static final TopoSetting<String> NCCL_NET_FORCE_MERGE =
      text(
          "NCCL_NET_FORCE_MERGE",
          "",
          "names with commas between them, groups with semicolons between them",
          "Groups of InfiniBand or RoCE devices or ports that count as one NIC.");

  public static final TopoSetting<Integer> NCCL_CROSS_NIC =
      number(
          "NCCL_CROSS_NIC",
          2,
          0,
          2,
          "Lets a ring leave and enter a host through different NICs. 0: never; 1: always; 2:"
              + " where it helps.");

  public static final TopoSetting<String> NCCL_NETDEVS_POLICY =
      matching(
          "NCCL_NETDEVS_POLICY",
          "AUTO",
          "(AUTO|ALL|MAX:[0-9]{1,6})?",
          "AUTO, ALL, or MAX: and a number",
          "The number of NICs that a GPU uses.");

  public static final TopoSetting<Boolean> NCCL_MNNVL_SCATTER_NETS_ENABLE =
      flag(
          "NCCL_MNNVL_SCATTER_NETS_ENABLE",
          true,
          "Spreads a rack's GPUs over the NICs of its hosts in turn.");

  public static final TopoSetting<Boolean> NCCL_MNNVL_RAIL_PER_HOST =
      flag(
          "NCCL_MNNVL_RAIL_PER_HOST",
          false,
          "Numbers the rails of a rack's hosts by the place of the NIC in its host.");

  public static final TopoSetting<String> NCCL4J_TOPO_COMPAT =
      text(
          "NCCL4J_TOPO_COMPAT",
          "",
          "nccl, or nothing",
          "Behaves as NCCL even where NCCL gives up; see docs/concepts/topology.md.");

  public static final TopoSetting<Integer> NCCL_MIN_NCHANNELS =
      number(
          "NCCL_MIN_NCHANNELS",
          0,
          0,
          MAX_CHANNELS,
          "The fewest channels of GPUs' rings and trees.");

  public static final TopoSetting<Integer> NCCL_MAX_NCHANNELS =
      number(
          "NCCL_MAX_NCHANNELS",
          MAX_CHANNELS,
          0,
          MAX_CHANNELS,
          "The most channels of GPUs' rings and trees.");

  public static final TopoSetting<Integer> NCCL_MIN_NRINGS =
      number("NCCL_MIN_NRINGS", 0, 0, MAX_CHANNELS, "The old name of NCCL_MIN_NCHANNELS.");

  public static final TopoSetting<Integer> NCCL_MAX_NRINGS =
      number(
          "NCCL_MAX_NRINGS", MAX_CHANNELS, 0, MAX_CHANNELS, "The old name of NCCL_MAX_NCHANNELS.");

  public static final TopoSetting<Integer> NCCL_MIN_P2P_NCHANNELS =
      number(
          "NCCL_MIN_P2P_NCHANNELS",
          1,
          0,
          MAX_CHANNELS,
          "The fewest channels of sends and receives that ./nccl topo counts.");

  public static final TopoSetting<Integer> NCCL_MAX_P2P_NCHANNELS =
      number(
          "NCCL_MAX_P2P_NCHANNELS",
          MAX_CHANNELS,
          0,
          MAX_CHANNELS,
          "The most channels of a GPU's send or receive; a channel is a block.");

  public static final TopoSetting<Integer> NCCL_NCHANNELS_PER_NET_PEER =
      number(
          "NCCL_NCHANNELS_PER_NET_PEER",
          0,
          0,
          MAX_CHANNELS,
          "Channels of a GPU's connection to a peer over a network, at most 32 of which are"
              + " used; 0: the library chooses.");

  public static final TopoSetting<Integer> NCCL_P2P_PER_CHANNEL_NET_BW =
      number(
          "NCCL_P2P_PER_CHANNEL_NET_BW",
          14,
          1,
          MANY,
          "The bandwidth of a channel to another host that ./nccl topo assumes, in GB/s.");

  public static final TopoSetting<Integer> NCCL_P2P_MAX_PEERS =
      number(
          "NCCL_P2P_MAX_PEERS",
          0,
          0,
          MANY,
          "The number of peers of each rank that ./nccl topo assumes; 0: all.");

  public static final TopoSetting<Integer> NCCL_COLLNET_NODE_THRESHOLD =
      number(
          "NCCL_COLLNET_NODE_THRESHOLD",
          2,
          1,
          MANY,
          "The fewest hosts with which nccl topo graph --collnet counts a reducing network.");

  public static final TopoSetting<Integer> NCCL_WORK_ARGS_BYTES =
      number(
          "NCCL_WORK_ARGS_BYTES",
          Integer.MAX_VALUE,
          0,
          Integer.MAX_VALUE,
          "Bytes for work in a kernel's arguments; they bound the channels.");

  public static final TopoSetting<Integer> NCCL_NTHREADS =
      number(
          "NCCL_NTHREADS",
          -2,
          -2,
          1024,
          "The threads of a block that are assumed when channels are counted; blocks may have"
              + " another number. Below 0: the library chooses.");

  public static final TopoSetting<Integer> NCCL_LL128_NTHREADS =
      number(
          "NCCL_LL128_NTHREADS",
          -2,
          -2,
          1024,
          "The threads of a block that are assumed with LL128 when channels are counted. Below 0:"
              + " the library chooses.");

  public static final TopoSetting<String> NCCL_THREAD_THRESHOLDS =
      text(
          "NCCL_THREAD_THRESHOLDS",
          "",
          "as NCCL's",
          "Bytes for each thread below which fewer threads or channels are used.");

  public static final TopoSetting<Integer> NCCL_NET_OVERHEAD =
      number(
          "NCCL_NET_OVERHEAD",
          -2,
          -2,
          MANY,
          "The cost of a message to another host, in nanoseconds; below 0: by the processor.");

  public static final TopoSetting<Integer> NCCL_PAT_ENABLE =
      number("NCCL_PAT_ENABLE", 2, 0, 2, "Allows PAT. 0: no; 1: yes; 2: where it is possible.");

  public static final TopoSetting<Boolean> NCCL_LL128_C2C =
      flag("NCCL_LL128_C2C", true, "Allows LL128 over C2C links.");

  private static final int KERNEL_ARGS_BYTES = 32;
  private static final int WORK_BATCH_BYTES = 16;

  private final Map<String, Object> values;

  private TopoSettings(Map<String, Object> values) {
    this.values = Map.copyOf(values);
  }

  /** The declared settings, in the order of the settings page. */
  public static List<TopoSetting<?>> all() {
    return List.copyOf(ALL);
  }

  /** Nothing set. */
  public static TopoSettings defaults() {
    return new TopoSettings(Map.of());
  }

  /**
   * The values of settings that are set, by name. Those of settings of other names are ignored.
   *
   * @param values as the settings' {@link TopoSetting#parser} gives them
   */
  public static TopoSettings of(Map<String, ?> values) {
    Map<String, Object> known = new HashMap<>(values);
    known.keySet().retainAll(ByName.ALL.keySet());
    known.forEach(
        (name, value) -> {
          if (!ByName.ALL.get(name).defaultValue().getClass().isInstance(value)) {
            throw new IllegalArgumentException(name + " is a " + value.getClass());
          }
        });
    return new TopoSettings(known);
  }

  /**
   * The values that are written as texts, by name.
   *
   * @throws TopologyException if a text is no value of its setting
   */
  public static TopoSettings parse(Map<String, String> texts) {
    Map<String, Object> values = new HashMap<>();
    texts.forEach(
        (name, text) -> {
          TopoSetting<?> setting = ByName.ALL.get(name);
          if (setting != null && !text.isBlank()) {
            values.put(name, parse(setting, text.strip()));
          }
        });
    return new TopoSettings(values);
  }

  private static Object parse(TopoSetting<?> setting, String text) {
    try {
      return setting.parser().apply(text);
    } catch (IllegalArgumentException e) {
      throw new TopologyException(
          "a setting cannot be read",
          setting.name() + "=" + text,
          "the text is " + e.getMessage(),
          "set it to " + setting.allowed() + ", or unset it");
    }
  }

  /** The same without values of settings of given names. */
  public TopoSettings without(Set<String> names) {
    Map<String, Object> others = new HashMap<>(values);
    others.keySet().removeAll(names);
    return new TopoSettings(others);
  }

  /** The value of a setting, or its default. */
  public <T> T get(TopoSetting<T> setting) {
    return find(setting).orElse(setting.defaultValue());
  }

  /** The value of a setting if it is set. */
  @SuppressWarnings("unchecked") // the parser made it
  public <T> Optional<T> find(TopoSetting<T> setting) {
    return Optional.ofNullable((T) values.get(setting.name()));
  }

  /** NCCL_MAX_P2P_NCHANNELS: the most channels of sends and receives. */
  public int maxPeerChannels() {
    return Math.max(1, get(NCCL_MAX_P2P_NCHANNELS));
  }

  /** NCCL_MIN_P2P_NCHANNELS: the fewest channels of sends and receives. */
  public int minPeerChannels() {
    return Math.max(1, get(NCCL_MIN_P2P_NCHANNELS));
  }

  /** NCCL4J_TOPO_COMPAT=nccl: whether to do as NCCL does even where it gives up. */
  public boolean matchesNccl() {
    return get(NCCL4J_TOPO_COMPAT).equalsIgnoreCase("nccl");
  }

  /** NCCL_P2P_DISABLE and NCCL_P2P_LEVEL: the longest path that peers may use, if set. */
  public Optional<PathType> p2pLevel() {
    if (get(NCCL_P2P_DISABLE)) {
      return Optional.of(PathType.LOC);
    }
    return get(NCCL_P2P_LEVEL);
  }

  /** NCCL_NET_GDR_LEVEL: the longest path for GPUDirect RDMA. */
  public PathType gdrLevel() {
    PathType level = get(NCCL_NET_GDR_C2C) ? PathType.P2C : PathType.PXB;
    return get(NCCL_NET_GDR_LEVEL).orElse(level);
  }

  /** NCCL_CROSS_NIC: 0 never, 1 always, 2 (default) where it helps. */
  public int crossNic() {
    return get(NCCL_CROSS_NIC);
  }

  /** NCCL_NVB_DISABLE: whether no path may lead through another GPU. */
  public boolean nvbDisabled() {
    return get(NCCL_NVB_DISABLE);
  }

  /** NCCL_PXN_DISABLE: whether no GPU may use the network card of another. */
  public boolean pxnDisabled() {
    return get(NCCL_PXN_DISABLE);
  }

  /** NCCL_PXN_C2C: how near the other GPU must be to its network card. */
  public PathType pxnLevel() {
    return get(NCCL_PXN_C2C) ? PathType.P2C : PathType.PXB;
  }

  /**
   * NCCL_P2P_PXN_LEVEL: by whose card sends between hosts leave. 0: the sender's own; 1: that of
   * the receiver's rail where the sender has a path to it; 2 (default): that of the receiver's rail
   * through the GPU beside it. 0 where NCCL_PXN_DISABLE=1.
   */
  public int peerPxnLevel() {
    return pxnDisabled() ? 0 : get(NCCL_P2P_PXN_LEVEL);
  }

  /** NCCL_SHM_DISABLE: whether shared memory may not be used. */
  public boolean shmDisabled() {
    return get(NCCL_SHM_DISABLE);
  }

  /** NCCL_NVLS_ENABLE: whether reduction in the NVSwitch may be used. */
  public boolean nvlsEnabled() {
    return get(NCCL_NVLS_ENABLE) != 0;
  }

  /** The fewest channels asked for. */
  public int minChannels() {
    return find(NCCL_MIN_NCHANNELS).orElse(get(NCCL_MIN_NRINGS));
  }

  /** The most channels allowed. */
  public int maxChannels() {
    int wanted = find(NCCL_MAX_NCHANNELS).orElse(get(NCCL_MAX_NRINGS));
    return Math.max(1, Math.min(wanted, channelsThatFitArguments()));
  }

  /** NCCL_MIN_CTAS: at least 1 and at most {@link #maxCtas}. */
  public int minCtas() {
    return Math.min(get(NCCL_MIN_CTAS), maxCtas());
  }

  /** NCCL_MAX_CTAS: 1 to {@link #MAX_CHANNELS}. */
  public int maxCtas() {
    return get(NCCL_MAX_CTAS);
  }

  /** NCCL_NCHANNELS_PER_NET_PEER: channels for a peer on another node, if set and not 0. */
  public OptionalInt channelsPerNetPeer() {
    return positive(NCCL_NCHANNELS_PER_NET_PEER);
  }

  /** NCCL_P2P_MAX_PEERS: how many peers to expect, if set and not 0. */
  public OptionalInt maxPeers() {
    return positive(NCCL_P2P_MAX_PEERS);
  }

  private OptionalInt positive(TopoSetting<Integer> setting) {
    int value = find(setting).orElse(0);
    return value > 0 ? OptionalInt.of(value) : OptionalInt.empty();
  }

  /**
   * Returns the number of channels whose first batches fit beside a kernel's arguments
   * (NCCL_WORK_ARGS_BYTES).
   */
  public int channelsThatFitArguments() {
    int bytes = get(NCCL_WORK_ARGS_BYTES);
    return Math.min(MAX_CHANNELS, Math.max(0, bytes - KERNEL_ARGS_BYTES) / WORK_BATCH_BYTES);
  }

  private static TopoSetting<Integer> number(
      String name, int defaultValue, int least, int most, String sentence) {
    return declare(TopoSetting.number(name, defaultValue, least, most, sentence));
  }

  private static TopoSetting<Boolean> flag(String name, boolean defaultValue, String sentence) {
    return declare(TopoSetting.flag(name, defaultValue, sentence));
  }

  private static TopoSetting<String> text(
      String name, String defaultValue, String allowed, String sentence) {
    return declare(TopoSetting.text(name, defaultValue, allowed, sentence));
  }

  private static TopoSetting<String> matching(
      String name, String defaultValue, String pattern, String allowed, String sentence) {
    return declare(TopoSetting.matching(name, defaultValue, pattern, allowed, sentence));
  }

  private static TopoSetting<NameLists> names(String name, String allowed, String sentence) {
    return declare(TopoSetting.names(name, allowed, sentence));
  }

  private static TopoSetting<Optional<PathType>> level(String name, String sentence) {
    return declare(TopoSetting.level(name, sentence));
  }

  private static <T> TopoSetting<T> declare(TopoSetting<T> setting) {
    ALL.add(setting);
    return setting;
  }

  /** All of them by name, for those who have texts or values of several. */
  private static final class ByName {
    private static final Map<String, TopoSetting<?>> ALL =
        all().stream().collect(Collectors.toMap(TopoSetting::name, setting -> setting));
  }
}
