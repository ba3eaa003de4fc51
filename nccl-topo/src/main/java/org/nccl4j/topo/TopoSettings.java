package org.nccl4j.topo;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;

/**
 * The values of the settings that act on topology, search and tuning, under NCCL's names and with
 * its defaults. The values come from the caller: this module does not read the environment.
 */
public final class TopoSettings {
  /** The most channels that a communicator can have. */
  public static final int MAX_CHANNELS = 64;

  public static final TopoSetting<Boolean> NCCL_P2P_DISABLE =
      TopoSetting.flag("NCCL_P2P_DISABLE", false);
  public static final TopoSetting<Boolean> NCCL_SHM_DISABLE =
      TopoSetting.flag("NCCL_SHM_DISABLE", false);
  public static final TopoSetting<Boolean> NCCL_NET_GDR_READ =
      TopoSetting.flag("NCCL_NET_GDR_READ", false);
  public static final TopoSetting<Boolean> NCCL_NET_GDR_C2C =
      TopoSetting.flag("NCCL_NET_GDR_C2C", true);
  public static final TopoSetting<Boolean> NCCL_NET_GDR_MLOPART =
      TopoSetting.flag("NCCL_NET_GDR_MLOPART", false);
  public static final TopoSetting<Boolean> NCCL_NVB_DISABLE =
      TopoSetting.flag("NCCL_NVB_DISABLE", false);
  public static final TopoSetting<Boolean> NCCL_PXN_DISABLE =
      TopoSetting.flag("NCCL_PXN_DISABLE", false);
  public static final TopoSetting<Boolean> NCCL_PXN_C2C = TopoSetting.flag("NCCL_PXN_C2C", true);
  public static final TopoSetting<Boolean> NCCL_NET_DISABLE_INTRA =
      TopoSetting.flag("NCCL_NET_DISABLE_INTRA", false);
  public static final TopoSetting<Boolean> NCCL_P2P_USE_CUDA_MEMCPY =
      TopoSetting.flag("NCCL_P2P_USE_CUDA_MEMCPY", false);
  public static final TopoSetting<Boolean> NCCL_TOPO_SPLIT_MLOPART =
      TopoSetting.flag("NCCL_TOPO_SPLIT_MLOPART", true);
  public static final TopoSetting<Boolean> NCCL_MNNVL_SCATTER_NETS_ENABLE =
      TopoSetting.flag("NCCL_MNNVL_SCATTER_NETS_ENABLE", true);
  public static final TopoSetting<Boolean> NCCL_MNNVL_RAIL_PER_HOST =
      TopoSetting.flag("NCCL_MNNVL_RAIL_PER_HOST", false);
  public static final TopoSetting<Boolean> NCCL_LL128_C2C =
      TopoSetting.flag("NCCL_LL128_C2C", true);
  public static final TopoSetting<Integer> NCCL_CROSS_NIC = TopoSetting.number("NCCL_CROSS_NIC", 2);
  public static final TopoSetting<Integer> NCCL_P2P_PXN_LEVEL =
      TopoSetting.number("NCCL_P2P_PXN_LEVEL", 2);
  public static final TopoSetting<Integer> NCCL_NVLS_ENABLE =
      TopoSetting.number("NCCL_NVLS_ENABLE", 2);
  public static final TopoSetting<Integer> NCCL_NVLS_NCHANNELS =
      TopoSetting.number("NCCL_NVLS_NCHANNELS", 0);
  public static final TopoSetting<Integer> NCCL_MIN_NCHANNELS =
      TopoSetting.number("NCCL_MIN_NCHANNELS", 0);
  public static final TopoSetting<Integer> NCCL_MAX_NCHANNELS =
      TopoSetting.number("NCCL_MAX_NCHANNELS", MAX_CHANNELS);
  public static final TopoSetting<Integer> NCCL_MIN_NRINGS =
      TopoSetting.number("NCCL_MIN_NRINGS", 0);
  public static final TopoSetting<Integer> NCCL_MAX_NRINGS =
      TopoSetting.number("NCCL_MAX_NRINGS", MAX_CHANNELS);
  public static final TopoSetting<Integer> NCCL_MIN_CTAS = TopoSetting.number("NCCL_MIN_CTAS", 1);
  public static final TopoSetting<Integer> NCCL_MAX_CTAS =
      TopoSetting.number("NCCL_MAX_CTAS", MAX_CHANNELS);
  public static final TopoSetting<Integer> NCCL_MIN_P2P_NCHANNELS =
      TopoSetting.number("NCCL_MIN_P2P_NCHANNELS", 1);
  public static final TopoSetting<Integer> NCCL_MAX_P2P_NCHANNELS =
      TopoSetting.number("NCCL_MAX_P2P_NCHANNELS", MAX_CHANNELS);
  public static final TopoSetting<Integer> NCCL_NCHANNELS_PER_NET_PEER =
      TopoSetting.number("NCCL_NCHANNELS_PER_NET_PEER", 0);
  public static final TopoSetting<Integer> NCCL_P2P_PER_CHANNEL_NET_BW =
      TopoSetting.number("NCCL_P2P_PER_CHANNEL_NET_BW", 14);
  public static final TopoSetting<Integer> NCCL_P2P_MAX_PEERS =
      TopoSetting.number("NCCL_P2P_MAX_PEERS", 0);
  public static final TopoSetting<Integer> NCCL_COLLNET_NODE_THRESHOLD =
      TopoSetting.number("NCCL_COLLNET_NODE_THRESHOLD", 2);
  public static final TopoSetting<Integer> NCCL_WORK_ARGS_BYTES =
      TopoSetting.number("NCCL_WORK_ARGS_BYTES", Integer.MAX_VALUE);
  public static final TopoSetting<Integer> NCCL_NTHREADS = TopoSetting.number("NCCL_NTHREADS", -2);
  public static final TopoSetting<Integer> NCCL_LL128_NTHREADS =
      TopoSetting.number("NCCL_LL128_NTHREADS", -2);
  public static final TopoSetting<Integer> NCCL_NET_OVERHEAD =
      TopoSetting.number("NCCL_NET_OVERHEAD", -2);
  public static final TopoSetting<Integer> NCCL_PAT_ENABLE =
      TopoSetting.number("NCCL_PAT_ENABLE", 2);
  public static final TopoSetting<Integer> NCCL_IGNORE_DISABLED_P2P =
      TopoSetting.number("NCCL_IGNORE_DISABLED_P2P", 0);
  public static final TopoSetting<Optional<PathType>> NCCL_P2P_LEVEL =
      TopoSetting.level("NCCL_P2P_LEVEL");
  public static final TopoSetting<Optional<PathType>> NCCL_NET_GDR_LEVEL =
      TopoSetting.level("NCCL_NET_GDR_LEVEL");
  public static final TopoSetting<NameLists> NCCL_ALGO = TopoSetting.names("NCCL_ALGO");
  public static final TopoSetting<NameLists> NCCL_PROTO = TopoSetting.names("NCCL_PROTO");
  public static final TopoSetting<String> NCCL_NET_MERGE_LEVEL =
      TopoSetting.text("NCCL_NET_MERGE_LEVEL", "PORT");
  public static final TopoSetting<String> NCCL_NET_MERGE_POLICY =
      TopoSetting.text("NCCL_NET_MERGE_POLICY", "");
  public static final TopoSetting<String> NCCL_NET_FORCE_MERGE =
      TopoSetting.text("NCCL_NET_FORCE_MERGE", "");
  public static final TopoSetting<String> NCCL_NETDEVS_POLICY =
      TopoSetting.text("NCCL_NETDEVS_POLICY", "AUTO");
  public static final TopoSetting<String> NCCL4J_TOPO_COMPAT =
      TopoSetting.text("NCCL4J_TOPO_COMPAT", "");
  public static final TopoSetting<String> NCCL_THREAD_THRESHOLDS =
      TopoSetting.text("NCCL_THREAD_THRESHOLDS", "");
  public static final TopoSetting<String> NCCL_GRAPH_FILE = TopoSetting.text("NCCL_GRAPH_FILE", "");

  private static final int KERNEL_ARGS_BYTES = 32;
  private static final int WORK_BATCH_BYTES = 16;

  private final Map<String, Object> values;

  private TopoSettings(Map<String, Object> values) {
    this.values = Map.copyOf(values);
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
          "write a value of the kind of \"" + setting.defaultValue() + "\", or unset it");
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
    return Math.max(1, Math.min(MAX_CHANNELS, get(NCCL_MAX_P2P_NCHANNELS)));
  }

  /** NCCL_MIN_P2P_NCHANNELS: the fewest channels of sends and receives. */
  public int minPeerChannels() {
    return Math.max(1, Math.min(MAX_CHANNELS, get(NCCL_MIN_P2P_NCHANNELS)));
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
    int wanted = find(NCCL_MIN_NCHANNELS).orElse(get(NCCL_MIN_NRINGS));
    return Math.max(0, Math.min(MAX_CHANNELS, wanted));
  }

  /** The most channels allowed. */
  public int maxChannels() {
    int wanted = find(NCCL_MAX_NCHANNELS).orElse(get(NCCL_MAX_NRINGS));
    return Math.max(1, Math.min(wanted, channelsThatFitArguments()));
  }

  /** NCCL_MIN_CTAS: at least 1 and at most {@link #maxCtas}. */
  public int minCtas() {
    return Math.min(positive(NCCL_MIN_CTAS).orElse(1), maxCtas());
  }

  /** NCCL_MAX_CTAS: at most {@link #MAX_CHANNELS}; numbers below 1 do not count. */
  public int maxCtas() {
    return Math.min(positive(NCCL_MAX_CTAS).orElse(MAX_CHANNELS), MAX_CHANNELS);
  }

  /** NCCL_NCHANNELS_PER_NET_PEER: channels for a peer on another node, if set and positive. */
  public OptionalInt channelsPerNetPeer() {
    return positive(NCCL_NCHANNELS_PER_NET_PEER);
  }

  /** NCCL_P2P_MAX_PEERS: how many peers to expect, if set and positive. */
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

  /** All settings by name, for those who have texts or values of several. */
  private static final class ByName {
    private static final Map<String, TopoSetting<?>> ALL = all();

    private static Map<String, TopoSetting<?>> all() {
      Map<String, TopoSetting<?>> all = new HashMap<>();
      for (TopoSetting<?> setting :
          List.<TopoSetting<?>>of(
              NCCL_P2P_DISABLE,
              NCCL_SHM_DISABLE,
              NCCL_NET_GDR_READ,
              NCCL_NET_GDR_C2C,
              NCCL_NET_GDR_MLOPART,
              NCCL_NVB_DISABLE,
              NCCL_PXN_DISABLE,
              NCCL_PXN_C2C,
              NCCL_NET_DISABLE_INTRA,
              NCCL_P2P_USE_CUDA_MEMCPY,
              NCCL_TOPO_SPLIT_MLOPART,
              NCCL_MNNVL_SCATTER_NETS_ENABLE,
              NCCL_MNNVL_RAIL_PER_HOST,
              NCCL_LL128_C2C,
              NCCL_CROSS_NIC,
              NCCL_P2P_PXN_LEVEL,
              NCCL_NVLS_ENABLE,
              NCCL_NVLS_NCHANNELS,
              NCCL_MIN_NCHANNELS,
              NCCL_MAX_NCHANNELS,
              NCCL_MIN_NRINGS,
              NCCL_MAX_NRINGS,
              NCCL_MIN_CTAS,
              NCCL_MAX_CTAS,
              NCCL_MIN_P2P_NCHANNELS,
              NCCL_MAX_P2P_NCHANNELS,
              NCCL_NCHANNELS_PER_NET_PEER,
              NCCL_P2P_PER_CHANNEL_NET_BW,
              NCCL_P2P_MAX_PEERS,
              NCCL_COLLNET_NODE_THRESHOLD,
              NCCL_WORK_ARGS_BYTES,
              NCCL_NTHREADS,
              NCCL_LL128_NTHREADS,
              NCCL_NET_OVERHEAD,
              NCCL_PAT_ENABLE,
              NCCL_IGNORE_DISABLED_P2P,
              NCCL_P2P_LEVEL,
              NCCL_NET_GDR_LEVEL,
              NCCL_ALGO,
              NCCL_PROTO,
              NCCL_NET_MERGE_LEVEL,
              NCCL_NET_MERGE_POLICY,
              NCCL_NET_FORCE_MERGE,
              NCCL_NETDEVS_POLICY,
              NCCL4J_TOPO_COMPAT,
              NCCL_THREAD_THRESHOLDS,
              NCCL_GRAPH_FILE)) {
        all.put(setting.name(), setting);
      }
      return all;
    }
  }
}
