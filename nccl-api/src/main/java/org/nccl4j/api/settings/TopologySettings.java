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
              "With 1, no warning where the driver has peer access of NVLink neighbours off; with 2"
                  + " it is not asked."),
          level("NCCL_NET_GDR_LEVEL", "The longest path between a GPU and a card for GPUDirect."),
          Setting.flag(
              "NCCL_NET_GDR_READ",
              false,
              "Whether cards also read GPU memory; without it, where NVLink makes it worth while."),
          Setting.flag("NCCL_NET_GDR_C2C", true, "Whether GPUDirect may lead through a C2C link."),
          Setting.flag("NCCL_NET_GDR_MLOPART", false, "Whether partitions of a GPU use GPUDirect."),
          Setting.flag("NCCL_NVB_DISABLE", false, "Forbids paths through another GPU."),
          Setting.flag(
              "NCCL_PXN_DISABLE",
              false,
              "Forbids to send by the card beside another GPU, through that GPU's memory (PXN)."),
          Setting.number(
              "NCCL_P2P_PXN_LEVEL",
              2,
              0,
              2,
              "By whose card sends to another host leave: the sender's own; that of the receiver's"
                  + " rail where there is a path; that of the receiver's rail through the GPU"
                  + " beside it."),
          Setting.flag("NCCL_PXN_C2C", true, "Whether that card may be behind a C2C link."),
          Setting.flag(
              "NCCL_NET_DISABLE_INTRA", false, "Forbids the network between GPUs of one host."),
          Setting.flag(
              "NCCL_P2P_USE_CUDA_MEMCPY",
              false,
              "Counts GPUs that reach each other through a third as not connected, as NCCL's copy"
                  + " engines need it."),
          Setting.flag(
              "NCCL_TOPO_SPLIT_MLOPART", true, "Whether partitions of a GPU count as GPUs."),
          Setting.text(
              "NCCL_NET_MERGE_LEVEL",
              "PORT",
              "PORT, or LOC, PIX, PXB, PHB or SYS",
              "How near cards must be to count as one."),
          Setting.text(
              "NCCL_NET_MERGE_POLICY",
              "",
              "RAIL, or nothing",
              "With RAIL, only cards of one rail count as one."),
          Setting.text(
              "NCCL_NET_FORCE_MERGE",
              "",
              "lists of cards' names",
              "Which cards count as one; where it cannot be followed, a warning says so."));

  private static final List<Setting<?>> SEARCH =
      List.of(
          Setting.number(
              "NCCL_CROSS_NIC",
              2,
              0,
              2,
              "Whether a ring may leave and enter a host by different cards: never, always, where"
                  + " it helps."),
          Setting.text(
              "NCCL_NETDEVS_POLICY",
              "AUTO",
              "AUTO, ALL, or MAX: and a number",
              "How many cards a GPU uses."),
          Setting.flag(
              "NCCL_MNNVL_SCATTER_NETS_ENABLE",
              true,
              "Spreads a rack's GPUs over the cards of its hosts in turn."),
          Setting.flag(
              "NCCL_MNNVL_RAIL_PER_HOST",
              false,
              "Tells the rails of a rack's hosts by the place of the card in its host."),
          Setting.text(
              "NCCL4J_TOPO_COMPAT",
              "",
              "nccl, or nothing",
              "Does as NCCL does even where it gives up; see docs/concepts/topology.md."));

  private static final List<Setting<?>> CHANNEL_COUNTS =
      List.of(
          channels("NCCL_MIN_NCHANNELS", 0, "The fewest channels of GPUs' rings and trees."),
          channels("NCCL_MAX_NCHANNELS", CHANNELS, "The most channels of GPUs' rings and trees."),
          channels("NCCL_MIN_NRINGS", 0, "NCCL_MIN_NCHANNELS by its old name."),
          channels("NCCL_MAX_NRINGS", CHANNELS, "NCCL_MAX_NCHANNELS by its old name."),
          channels("NCCL_MIN_P2P_NCHANNELS", 1, "The fewest channels of sends and receives."),
          channels(
              "NCCL_MAX_P2P_NCHANNELS",
              CHANNELS,
              "The most channels of a GPU's send or receive, a block each."),
          Setting.number(
              "NCCL_NCHANNELS_PER_NET_PEER",
              0,
              0,
              CHANNELS,
              "Channels of a GPU's connection with a peer over a network, of which 4 at most are"
                  + " used; 0: chosen."),
          Setting.number(
              "NCCL_P2P_PER_CHANNEL_NET_BW",
              14,
              1,
              MANY,
              "What a channel is taken to move to another host, in GB/s."),
          Setting.number(
              "NCCL_P2P_MAX_PEERS",
              0,
              0,
              MANY,
              "How many peers each rank is expected to have; 0: all."),
          Setting.number(
              "NCCL_COLLNET_NODE_THRESHOLD",
              2,
              1,
              MANY,
              "Hosts from which on a reducing network counts."),
          Setting.number(
              "NCCL_WORK_ARGS_BYTES",
              Integer.MAX_VALUE,
              0,
              Integer.MAX_VALUE,
              "Room for work in a kernel's arguments, which bounds the channels, in bytes."));

  private static final List<Setting<?>> COSTS =
      List.of(
          Setting.number("NCCL_NTHREADS", -2, -2, 1024, "Threads of a block; below 0: chosen."),
          Setting.number(
              "NCCL_LL128_NTHREADS", -2, -2, 1024, "Threads of a block by LL128; below 0: chosen."),
          Setting.text(
              "NCCL_THREAD_THRESHOLDS",
              "",
              "as NCCL's",
              "Bytes a thread below which fewer threads or channels are taken."),
          Setting.number(
              "NCCL_NET_OVERHEAD",
              -2,
              -2,
              MANY,
              "What a message to another host costs, in nanoseconds; below 0: by the processor."),
          Setting.number("NCCL_PAT_ENABLE", 2, 0, 2, "Whether PAT may be chosen; 2: where it can."),
          Setting.flag("NCCL_LL128_C2C", true, "Whether LL128 may be used over C2C links."));

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
