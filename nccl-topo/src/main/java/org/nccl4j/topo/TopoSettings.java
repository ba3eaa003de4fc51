package org.nccl4j.topo;

import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;

/**
 * The settings that act on topology, search and tuning, under NCCL's names and with its defaults.
 * The values come from the caller: this module does not read the environment.
 *
 * @param values setting to text, such as {@code NCCL_CROSS_NIC} to {@code "1"}
 */
public record TopoSettings(Map<String, String> values) {
  /** The most channels that a communicator can have. */
  public static final int MAX_CHANNELS = 64;

  private static final int KERNEL_ARGS_BYTES = 32;
  private static final int WORK_BATCH_BYTES = 16;

  /** Copies the map. */
  public TopoSettings {
    values = Map.copyOf(values);
  }

  /** Nothing set. */
  public static TopoSettings defaults() {
    return new TopoSettings(Map.of());
  }

  /** The text of a setting. */
  public Optional<String> text(String name) {
    return Optional.ofNullable(values.get(name)).filter(value -> !value.isEmpty());
  }

  /**
   * A number as NCCL reads one: what the text starts with, in C's notation, and 0 if that is no
   * number. What 64 bits do not hold counts as not set.
   */
  public OptionalInt number(String name) {
    Optional<String> text = text(name);
    if (text.isEmpty()) {
      return OptionalInt.empty();
    }
    long value = CNumber.prefix(text.get()).orElse(0);
    if (value == Long.MAX_VALUE || value == Long.MIN_VALUE) {
      return OptionalInt.empty();
    }
    return OptionalInt.of((int) Math.max(Integer.MIN_VALUE, Math.min(Integer.MAX_VALUE, value)));
  }

  /** A number or its default. */
  public int number(String name, int otherwise) {
    return number(name).orElse(otherwise);
  }

  /** NCCL_MAX_P2P_NCHANNELS: the most channels of sends and receives. */
  public int maxPeerChannels() {
    return Math.max(1, Math.min(MAX_CHANNELS, number("NCCL_MAX_P2P_NCHANNELS", MAX_CHANNELS)));
  }

  /** NCCL4J_TOPO_COMPAT=nccl: whether to do as NCCL does even where it gives up. */
  public boolean matchesNccl() {
    return text("NCCL4J_TOPO_COMPAT").map("nccl"::equalsIgnoreCase).orElse(false);
  }

  /** NCCL_P2P_DISABLE and NCCL_P2P_LEVEL: the longest path that peers may use, if set. */
  public Optional<PathType> p2pLevel() {
    if (number("NCCL_P2P_DISABLE", 0) == 1) {
      return Optional.of(PathType.LOC);
    }
    return text("NCCL_P2P_LEVEL").flatMap(PathType::level);
  }

  /** NCCL_NET_GDR_LEVEL: the longest path for GPUDirect RDMA. */
  public PathType gdrLevel() {
    PathType level = number("NCCL_NET_GDR_C2C", 1) != 0 ? PathType.P2C : PathType.PXB;
    return text("NCCL_NET_GDR_LEVEL").flatMap(PathType::level).orElse(level);
  }

  /** NCCL_CROSS_NIC: 0 never, 1 always, 2 (default) where it helps. */
  public int crossNic() {
    return number("NCCL_CROSS_NIC", 2);
  }

  /** NCCL_NVB_DISABLE: whether no path may lead through another GPU. */
  public boolean nvbDisabled() {
    return number("NCCL_NVB_DISABLE", 0) != 0;
  }

  /** NCCL_PXN_DISABLE: whether no GPU may use the network card of another. */
  public boolean pxnDisabled() {
    return number("NCCL_PXN_DISABLE", 0) == 1;
  }

  /** NCCL_PXN_C2C: how near the other GPU must be to its network card. */
  public PathType pxnLevel() {
    return number("NCCL_PXN_C2C", 1) != 0 ? PathType.P2C : PathType.PXB;
  }

  /**
   * NCCL_P2P_PXN_LEVEL: by whose card sends between hosts leave. 0: the sender's own; 1: that of
   * the receiver's rail where the sender has a path to it; 2 (default): that of the receiver's rail
   * through the GPU beside it. 0 where NCCL_PXN_DISABLE=1.
   */
  public int peerPxnLevel() {
    return pxnDisabled() ? 0 : number("NCCL_P2P_PXN_LEVEL", 2);
  }

  /** NCCL_SHM_DISABLE: whether shared memory may not be used. */
  public boolean shmDisabled() {
    return number("NCCL_SHM_DISABLE", 0) == 1;
  }

  /** NCCL_NVLS_ENABLE: whether reduction in the NVSwitch may be used. */
  public boolean nvlsEnabled() {
    return number("NCCL_NVLS_ENABLE", 2) != 0;
  }

  /** The fewest channels asked for. */
  public int minChannels() {
    int wanted = number("NCCL_MIN_NCHANNELS", number("NCCL_MIN_NRINGS", 0));
    return Math.max(0, Math.min(MAX_CHANNELS, wanted));
  }

  /** The most channels allowed. */
  public int maxChannels() {
    int wanted = number("NCCL_MAX_NCHANNELS", number("NCCL_MAX_NRINGS", MAX_CHANNELS));
    return Math.max(1, Math.min(wanted, channelsThatFitArguments()));
  }

  /** NCCL_MIN_CTAS: at least 1 and at most {@link #maxCtas}. */
  public int minCtas() {
    return Math.min(positive("NCCL_MIN_CTAS").orElse(1), maxCtas());
  }

  /** NCCL_MAX_CTAS: at most {@link #MAX_CHANNELS}; what is not positive does not count. */
  public int maxCtas() {
    return Math.min(positive("NCCL_MAX_CTAS").orElse(MAX_CHANNELS), MAX_CHANNELS);
  }

  /** NCCL_NCHANNELS_PER_NET_PEER: channels for a peer on another node, if set and positive. */
  public OptionalInt channelsPerNetPeer() {
    return positive("NCCL_NCHANNELS_PER_NET_PEER");
  }

  /** NCCL_P2P_MAX_PEERS: how many peers to expect, if set and positive. */
  public OptionalInt maxPeers() {
    return positive("NCCL_P2P_MAX_PEERS");
  }

  private OptionalInt positive(String name) {
    OptionalInt value = number(name);
    return value.isPresent() && value.getAsInt() > 0 ? value : OptionalInt.empty();
  }

  /**
   * Returns the number of channels whose first batches fit beside a kernel's arguments
   * (NCCL_WORK_ARGS_BYTES).
   */
  public int channelsThatFitArguments() {
    int bytes = number("NCCL_WORK_ARGS_BYTES", Integer.MAX_VALUE);
    return Math.min(MAX_CHANNELS, Math.max(0, bytes - KERNEL_ARGS_BYTES) / WORK_BATCH_BYTES);
  }
}
