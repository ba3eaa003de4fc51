package org.nccl4j.api.settings;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.nccl4j.api.spi.Setting;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.TopoSetting;
import org.nccl4j.topo.TopoSettings;

/**
 * The settings that only nccl-topo reads. {@link TopoSettings} has their names, defaults and
 * grammars.
 */
public final class TopologySettings {
  private static final int MANY = 1 << 20;
  private static final String LEVELS =
      "LOC, NVL, PIX, PXB, PHB or SYS (or a number from 0 to 5 for LOC to SYS)";

  public static final Setting<Integer> NCCL_NCHANNELS_PER_NET_PEER =
      number(
          TopoSettings.NCCL_NCHANNELS_PER_NET_PEER,
          0,
          TopoSettings.MAX_CHANNELS,
          "Channels of a GPU's connection to a peer over a network, at most 16 of which are"
              + " used; 0: the library chooses.");

  public static final Setting<Integer> NCCL_P2P_MAX_PEERS =
      number(
          TopoSettings.NCCL_P2P_MAX_PEERS,
          0,
          MANY,
          "The number of peers of each rank that ./nccl topo assumes; 0: all.");

  public static final Setting<Optional<PathType>> NCCL_P2P_LEVEL =
      level(
          TopoSettings.NCCL_P2P_LEVEL,
          "The longest path over which GPUs access each other; unset: PXB, and SYS on AMD machines"
              + " with at most two GPUs. Others go through memory of the host.");

  public static final Setting<String> NCCL_NET_MERGE_LEVEL =
      of(
          TopoSettings.NCCL_NET_MERGE_LEVEL,
          "PORT, or LOC, PIX, PXB, PHB or SYS",
          "The longest path between NICs that count as one NIC. Communicators merge ports of one"
              + " card (PORT) or none (LOC).");

  public static final Setting<String> NCCL_NET_FORCE_MERGE =
      of(
          TopoSettings.NCCL_NET_FORCE_MERGE,
          "names with commas between them, groups with semicolons between them",
          "Groups of InfiniBand or RoCE devices or ports that count as one NIC.");

  private static final List<Setting<?>> PATHS =
      List.of(
          NCCL_P2P_LEVEL,
          number(
              TopoSettings.NCCL_IGNORE_DISABLED_P2P,
              0,
              2,
              "1: no warning if the driver forbids peer access between NVLink neighbours; 2: the"
                  + " driver is not asked."),
          level(
              TopoSettings.NCCL_NET_GDR_LEVEL,
              "The longest path between a GPU and a NIC for GPUDirect; unset: P2C, and PXB with"
                  + " NCCL_NET_GDR_C2C=0."),
          flag(
                  TopoSettings.NCCL_NET_GDR_READ,
                  "Allows NICs to read GPU memory too; if unset, where NVLink makes it worthwhile.")
              .chosenIfUnset(),
          flag(TopoSettings.NCCL_NET_GDR_C2C, "Allows GPUDirect through a C2C link."),
          flag(TopoSettings.NCCL_NET_GDR_MLOPART, "Allows GPUDirect for partitions of a GPU."),
          flag(TopoSettings.NCCL_NVB_DISABLE, "Forbids paths through another GPU."),
          flag(
              TopoSettings.NCCL_PXN_DISABLE,
              "Forbids sending through the NIC next to another GPU, over that GPU's memory (PXN)."),
          number(
              TopoSettings.NCCL_P2P_PXN_LEVEL,
              0,
              2,
              "The NIC of sends to another host. 0: the sender's own; 1: the NIC of the receiver's"
                  + " rail if there is a path; 2: the NIC of the receiver's rail through the GPU"
                  + " next to it."),
          flag(TopoSettings.NCCL_PXN_C2C, "Allows PXN through NICs behind a C2C link."),
          flag(
              TopoSettings.NCCL_NET_DISABLE_INTRA, "Forbids the network between GPUs of one host."),
          flag(
              TopoSettings.NCCL_P2P_USE_CUDA_MEMCPY,
              "Counts GPUs that reach each other only through a third GPU as not connected, as"
                  + " NCCL does for its copy engines."),
          flag(TopoSettings.NCCL_TOPO_SPLIT_MLOPART, "Counts partitions of a GPU as GPUs."),
          NCCL_NET_MERGE_LEVEL,
          of(
              TopoSettings.NCCL_NET_MERGE_POLICY,
              "RAIL, or nothing",
              "In ./nccl topo alone: with RAIL, only NICs of one rail count as one NIC."),
          NCCL_NET_FORCE_MERGE);

  private static final List<Setting<?>> SEARCH =
      List.of(
          number(
              TopoSettings.NCCL_CROSS_NIC,
              0,
              2,
              "Lets a ring leave and enter a host through different NICs. 0: never; 1: always; 2:"
                  + " where it helps."),
          of(
              TopoSettings.NCCL_NETDEVS_POLICY,
              "AUTO, ALL, or MAX: and a number",
              "The number of NICs that a GPU uses."),
          flag(
              TopoSettings.NCCL_MNNVL_SCATTER_NETS_ENABLE,
              "Spreads a rack's GPUs over the NICs of its hosts in turn."),
          flag(
              TopoSettings.NCCL_MNNVL_RAIL_PER_HOST,
              "Numbers the rails of a rack's hosts by the place of the NIC in its host."),
          of(
              TopoSettings.NCCL4J_TOPO_COMPAT,
              "nccl, or nothing",
              "Behaves as NCCL even where NCCL gives up; see docs/concepts/topology.md."));

  private static final List<Setting<?>> CHANNEL_COUNTS =
      List.of(
          channels(
              TopoSettings.NCCL_MIN_NCHANNELS, "The fewest channels of GPUs' rings and trees."),
          channels(TopoSettings.NCCL_MAX_NCHANNELS, "The most channels of GPUs' rings and trees."),
          channels(TopoSettings.NCCL_MIN_NRINGS, "The old name of NCCL_MIN_NCHANNELS."),
          channels(TopoSettings.NCCL_MAX_NRINGS, "The old name of NCCL_MAX_NCHANNELS."),
          channels(
              TopoSettings.NCCL_MIN_P2P_NCHANNELS,
              "The fewest channels of sends and receives that ./nccl topo counts."),
          channels(
              TopoSettings.NCCL_MAX_P2P_NCHANNELS,
              "The most channels of a GPU's send or receive; a channel is a block."),
          NCCL_NCHANNELS_PER_NET_PEER,
          number(
              TopoSettings.NCCL_P2P_PER_CHANNEL_NET_BW,
              1,
              MANY,
              "The bandwidth of a channel to another host that ./nccl topo assumes, in GB/s."),
          NCCL_P2P_MAX_PEERS,
          number(
              TopoSettings.NCCL_COLLNET_NODE_THRESHOLD,
              1,
              MANY,
              "The fewest hosts with which nccl topo graph --collnet counts a reducing network."),
          number(
              TopoSettings.NCCL_WORK_ARGS_BYTES,
              0,
              Integer.MAX_VALUE,
              "Bytes for work in a kernel's arguments; they bound the channels."));

  private static final List<Setting<?>> COSTS =
      List.of(
          number(
              TopoSettings.NCCL_NTHREADS,
              -2,
              1024,
              "The threads of a block that are assumed when channels are counted; blocks may have"
                  + " another number. Below 0: the library chooses."),
          number(
              TopoSettings.NCCL_LL128_NTHREADS,
              -2,
              1024,
              "The threads of a block that are assumed with LL128 when channels are counted. Below 0:"
                  + " the library chooses."),
          of(
              TopoSettings.NCCL_THREAD_THRESHOLDS,
              "as NCCL's",
              "Bytes for each thread below which fewer threads or channels are used."),
          number(
              TopoSettings.NCCL_NET_OVERHEAD,
              -2,
              MANY,
              "The cost of a message to another host, in nanoseconds; below 0: by the processor."),
          number(
              TopoSettings.NCCL_PAT_ENABLE,
              0,
              2,
              "Allows PAT. 0: no; 1: yes; 2: where it is possible."),
          flag(TopoSettings.NCCL_LL128_C2C, "Allows LL128 over C2C links."));

  static final List<Setting<?>> ALL = joined(List.of(PATHS, SEARCH, CHANNEL_COUNTS, COSTS));

  private TopologySettings() {}

  /** All settings of some lists, in their order. A loop: see {@link Settings}. */
  static List<Setting<?>> joined(List<List<Setting<?>>> lists) {
    List<Setting<?>> all = new ArrayList<>();
    for (List<Setting<?>> each : lists) {
      all.addAll(each);
    }
    return List.copyOf(all);
  }

  private static Setting<Optional<PathType>> level(
      TopoSetting<Optional<PathType>> setting, String sentence) {
    return of(setting, LEVELS, sentence);
  }

  private static Setting<Integer> channels(TopoSetting<Integer> setting, String sentence) {
    return number(setting, 0, TopoSettings.MAX_CHANNELS, sentence);
  }

  /** A setting that is on or off. */
  static Setting<Boolean> flag(TopoSetting<Boolean> setting, String sentence) {
    return Setting.flag(setting.name(), setting.defaultValue(), sentence);
  }

  /** A number of a range. */
  static Setting<Integer> number(
      TopoSetting<Integer> setting, int least, int most, String sentence) {
    return Setting.number(setting.name(), setting.defaultValue(), least, most, sentence);
  }

  /** A setting with the grammar that nccl-topo gives it. */
  static <T> Setting<T> of(TopoSetting<T> setting, String allowed, String sentence) {
    return Setting.of(setting.name(), setting.defaultValue(), allowed, sentence, setting.parser());
  }
}
