package org.nccl4j.api.settings;

import java.util.List;
import java.util.stream.Stream;

/**
 * The settings that nccl-topo reads by itself, as NCCL reads them: declared here so that they are
 * described, shown by doctor, and known when a name is misspelt.
 */
final class TopologySettings {
  private static final int CHANNELS = 64;
  private static final int MANY = 1 << 20;
  private static final String LEVELS =
      "LOC, NVL, PIX, PXB, PHB or SYS (or a number from 0 to 5 for LOC to SYS)";

  private static final List<Setting<?>> PATHS =
      List.of(
          level("NCCL_P2P_LEVEL", "The longest path over which GPUs access each other."),
          Setting.number(
              "NCCL_IGNORE_DISABLED_P2P",
              0,
              0,
              2,
              "With 1, no warning if the driver has peer access between NVLink neighbours off; with"
                  + " 2 the driver is not asked."),
          level("NCCL_NET_GDR_LEVEL", "The longest path between a GPU and a NIC for GPUDirect."),
          Setting.flag(
              "NCCL_NET_GDR_READ",
              false,
              "Allows NICs to read GPU memory too; if unset, where NVLink makes it worthwhile."),
          Setting.flag("NCCL_NET_GDR_C2C", true, "Allows GPUDirect through a C2C link."),
          Setting.flag("NCCL_NET_GDR_MLOPART", false, "Allows GPUDirect for partitions of a GPU."),
          Setting.flag("NCCL_NVB_DISABLE", false, "Forbids paths through another GPU."),
          Setting.flag(
              "NCCL_PXN_DISABLE",
              false,
              "Forbids sending through the NIC next to another GPU, over that GPU's memory (PXN)."),
          Setting.number(
              "NCCL_P2P_PXN_LEVEL",
              2,
              0,
              2,
              "The NIC of sends to another host. 0: the sender's own; 1: the NIC of the receiver's"
                  + " rail if there is a path; 2: the NIC of the receiver's rail through the GPU"
                  + " next to it."),
          Setting.flag("NCCL_PXN_C2C", true, "Allows PXN through NICs behind a C2C link."),
          Setting.flag(
              "NCCL_NET_DISABLE_INTRA", false, "Forbids the network between GPUs of one host."),
          Setting.flag(
              "NCCL_P2P_USE_CUDA_MEMCPY",
              false,
              "Counts GPUs that reach each other through a third GPU as not connected, as NCCL's"
                  + " copy engines need it."),
          Setting.flag("NCCL_TOPO_SPLIT_MLOPART", true, "Counts partitions of a GPU as GPUs."),
          Setting.text(
              "NCCL_NET_MERGE_LEVEL",
              "PORT",
              "PORT, or LOC, PIX, PXB, PHB or SYS",
              "The longest path between NICs that count as one NIC."),
          Setting.text(
              "NCCL_NET_MERGE_POLICY",
              "",
              "RAIL, or nothing",
              "With RAIL, only NICs of one rail count as one NIC."),
          Setting.text(
              "NCCL_NET_FORCE_MERGE",
              "",
              "lists of cards' names",
              "NICs that count as one NIC; a warning says if that is not possible."));

  private static final List<Setting<?>> SEARCH =
      List.of(
          Setting.number(
              "NCCL_CROSS_NIC",
              2,
              0,
              2,
              "Lets a ring leave and enter a host through different NICs. 0: never; 1: always; 2:"
                  + " where it helps."),
          Setting.text(
              "NCCL_NETDEVS_POLICY",
              "AUTO",
              "AUTO, ALL, or MAX: and a number",
              "The number of NICs that a GPU uses."),
          Setting.flag(
              "NCCL_MNNVL_SCATTER_NETS_ENABLE",
              true,
              "Spreads a rack's GPUs over the NICs of its hosts in turn."),
          Setting.flag(
              "NCCL_MNNVL_RAIL_PER_HOST",
              false,
              "Numbers the rails of a rack's hosts by the place of the NIC in its host."),
          Setting.text(
              "NCCL4J_TOPO_COMPAT",
              "",
              "nccl, or nothing",
              "Behaves as NCCL even where NCCL gives up; see docs/concepts/topology.md."));

  private static final List<Setting<?>> CHANNEL_COUNTS =
      List.of(
          channels("NCCL_MIN_NCHANNELS", 0, "The fewest channels of GPUs' rings and trees."),
          channels("NCCL_MAX_NCHANNELS", CHANNELS, "The most channels of GPUs' rings and trees."),
          channels("NCCL_MIN_NRINGS", 0, "The old name of NCCL_MIN_NCHANNELS."),
          channels("NCCL_MAX_NRINGS", CHANNELS, "The old name of NCCL_MAX_NCHANNELS."),
          channels("NCCL_MIN_P2P_NCHANNELS", 1, "The fewest channels of sends and receives."),
          channels(
              "NCCL_MAX_P2P_NCHANNELS",
              CHANNELS,
              "The most channels of a GPU's send or receive; a channel is a block."),
          Setting.number(
              "NCCL_NCHANNELS_PER_NET_PEER",
              0,
              0,
              CHANNELS,
              "Channels of a GPU's connection to a peer over a network, at most 4 of which are"
                  + " used; 0: the library chooses."),
          Setting.number(
              "NCCL_P2P_PER_CHANNEL_NET_BW",
              14,
              1,
              MANY,
              "The assumed bandwidth of a channel to another host, in GB/s."),
          Setting.number(
              "NCCL_P2P_MAX_PEERS",
              0,
              0,
              MANY,
              "The expected number of peers of each rank; 0: all."),
          Setting.number(
              "NCCL_COLLNET_NODE_THRESHOLD",
              2,
              1,
              MANY,
              "The fewest hosts with which nccl topo graph --collnet counts a reducing network."),
          Setting.number(
              "NCCL_WORK_ARGS_BYTES",
              Integer.MAX_VALUE,
              0,
              Integer.MAX_VALUE,
              "Bytes for work in a kernel's arguments; they bound the channels."));

  private static final List<Setting<?>> COSTS =
      List.of(
          Setting.number(
              "NCCL_NTHREADS", -2, -2, 1024, "Threads of a block; below 0: the library chooses."),
          Setting.number(
              "NCCL_LL128_NTHREADS",
              -2,
              -2,
              1024,
              "Threads of a block for LL128; below 0: the library chooses."),
          Setting.text(
              "NCCL_THREAD_THRESHOLDS",
              "",
              "as NCCL's",
              "Bytes for each thread below which fewer threads or channels are used."),
          Setting.number(
              "NCCL_NET_OVERHEAD",
              -2,
              -2,
              MANY,
              "The cost of a message to another host, in nanoseconds; below 0: by the processor."),
          Setting.number(
              "NCCL_PAT_ENABLE", 2, 0, 2, "Allows PAT. 0: no; 1: yes; 2: where it is possible."),
          Setting.flag("NCCL_LL128_C2C", true, "Allows LL128 over C2C links."));

  static final List<Setting<?>> ALL =
      Stream.of(PATHS, SEARCH, CHANNEL_COUNTS, COSTS).flatMap(List::stream).toList();

  private TopologySettings() {}

  private static Setting<String> level(String name, String sentence) {
    return Setting.text(name, "", LEVELS, sentence);
  }

  private static Setting<Integer> channels(String name, int byDefault, String sentence) {
    return Setting.number(name, byDefault, 0, CHANNELS, sentence);
  }
}
