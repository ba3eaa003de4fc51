package org.nccl4j.api.settings;

import java.util.List;
import org.nccl4j.api.spi.Setting;

/** The settings of InfiniBand and RoCE, by NCCL's names and with its defaults. */
public final class InfiniBandSettings {
  private static final int UNSET = -1;

  public static final Setting<Boolean> NCCL_IB_DISABLE =
      Setting.flag("NCCL_IB_DISABLE", false, "Forbids InfiniBand and RoCE.");

  public static final Setting<String> NCCL_IB_HCA =
      Setting.text(
          "NCCL_IB_HCA",
          "",
          "prefixes such as mlx5,mlx4_0:1; = in front for whole names, ^ in front to exclude",
          "The InfiniBand devices and ports to use.");

  public static final Setting<Integer> NCCL_IB_GID_INDEX =
      Setting.number(
          "NCCL_IB_GID_INDEX",
          UNSET,
          UNSET,
          255,
          "The GID of a port; -1: RoCE v2 with an IPv4 address, if there is one.");

  public static final Setting<Integer> NCCL_IB_ROUTABLE_FLID_GID_INDEX =
      Setting.number(
          "NCCL_IB_ROUTABLE_FLID_GID_INDEX",
          1,
          0,
          255,
          "The GID of an InfiniBand port that names a router to other subnets.");

  public static final Setting<Integer> NCCL_IB_TC =
      Setting.number("NCCL_IB_TC", UNSET, UNSET, 255, "The traffic class of RoCE packets; -1: 0.");

  public static final Setting<Integer> NCCL_IB_SL =
      Setting.number(
          "NCCL_IB_SL", UNSET, UNSET, 15, "The service level of InfiniBand packets; -1: 0.");

  public static final Setting<Integer> NCCL_IB_TIMEOUT =
      Setting.number(
          "NCCL_IB_TIMEOUT",
          20,
          1,
          31,
          "The time before a packet without an answer is sent again: 4.096 us times 2 to this"
              + " power.");

  public static final Setting<Integer> NCCL_IB_RETRY_CNT =
      Setting.number(
          "NCCL_IB_RETRY_CNT", 7, 0, 7, "The number of times that a packet is sent again.");

  public static final Setting<Integer> NCCL_IB_QPS_PER_CONNECTION =
      Setting.number("NCCL_IB_QPS_PER_CONNECTION", 1, 1, 128, "Queue pairs of each connection.");

  public static final Setting<Boolean> NCCL_IB_SPLIT_DATA_ON_QPS =
      Setting.flag(
          "NCCL_IB_SPLIT_DATA_ON_QPS",
          false,
          "Splits each message over all queue pairs, instead of using them in turn.");

  public static final Setting<Integer> NCCL_IB_PKEY =
      Setting.number("NCCL_IB_PKEY", 0, 0, 65535, "The index of the partition key.");

  public static final Setting<Boolean> NCCL_IB_MERGE_NICS =
      Setting.flag("NCCL_IB_MERGE_NICS", true, "Merges the ports of one card into one device.");

  public static final Setting<Boolean> NCCL_IB_RESILIENCY_PORT_FAILOVER =
      Setting.flag(
          "NCCL_IB_RESILIENCY_PORT_FAILOVER",
          true,
          "Lets other queue pairs, at the same port or another one, take over from broken ones"
              + " within NCCL4J_NET_FAILOVER_TIMEOUT. NCCL's default is 0.");

  public static final Setting<Boolean> NCCL_IB_RESILIENCY_PORT_RECOVERY =
      Setting.flag(
          "NCCL_IB_RESILIENCY_PORT_RECOVERY",
          true,
          "Lets a connection return to its first port when that port is up again. NCCL's default"
              + " is 0.");

  public static final Setting<Integer> NCCL_IB_RESILIENCY_PORT_RECOVERY_START_DELAY =
      Setting.number(
          "NCCL_IB_RESILIENCY_PORT_RECOVERY_START_DELAY",
          200,
          1,
          1_000_000,
          "The time before a connection returns to its first port, in ms; doubled for each move.");

  public static final Setting<Integer> NCCL_IB_PCI_RELAXED_ORDERING =
      Setting.number(
          "NCCL_IB_PCI_RELAXED_ORDERING",
          2,
          0,
          2,
          "Lets PCI Express reorder writes of received data, which is faster on some hosts. 0:"
              + " never; 1 and 2: if libibverbs and the adapter can.");

  public static final Setting<Integer> NCCL_IB_ADAPTIVE_ROUTING =
      Setting.number(
          "NCCL_IB_ADAPTIVE_ROUTING",
          -2,
          -2,
          1,
          "Lets switches route the packets of large messages over several ways: the data are"
              + " written first, and a write without data ends the receive. 1: always; 0: never;"
              + " less: on InfiniBand, not on RoCE.");

  public static final Setting<Integer> NCCL_IB_AR_THRESHOLD =
      Setting.number(
          "NCCL_IB_AR_THRESHOLD",
          8192,
          0,
          Integer.MAX_VALUE,
          "The most bytes that end their receive themselves in spite of"
              + " NCCL_IB_ADAPTIVE_ROUTING.");

  public static final Setting<Boolean> NCCL_DMABUF_ENABLE =
      Setting.flag(
          "NCCL_DMABUF_ENABLE",
          true,
          "Registers GPU memory with NICs through dma-bufs if both support it (GPUDirect"
              + " RDMA).");

  public static final Setting<String> NCCL_IBVERBS_LIB =
      Setting.text(
          "NCCL_IBVERBS_LIB",
          "libibverbs.so.1",
          "a file name or path",
          "The library through which InfiniBand is used.");

  static final List<Setting<?>> ALL =
      List.of(
          NCCL_IB_DISABLE,
          NCCL_IB_HCA,
          NCCL_IB_GID_INDEX,
          NCCL_IB_ROUTABLE_FLID_GID_INDEX,
          NCCL_IB_TC,
          NCCL_IB_SL,
          NCCL_IB_TIMEOUT,
          NCCL_IB_RETRY_CNT,
          NCCL_IB_QPS_PER_CONNECTION,
          NCCL_IB_SPLIT_DATA_ON_QPS,
          NCCL_IB_PKEY,
          NCCL_IB_MERGE_NICS,
          NCCL_IB_PCI_RELAXED_ORDERING,
          NCCL_IB_ADAPTIVE_ROUTING,
          NCCL_IB_AR_THRESHOLD,
          NCCL_IB_RESILIENCY_PORT_FAILOVER,
          NCCL_IB_RESILIENCY_PORT_RECOVERY,
          NCCL_IB_RESILIENCY_PORT_RECOVERY_START_DELAY,
          NCCL_DMABUF_ENABLE,
          NCCL_IBVERBS_LIB);

  private InfiniBandSettings() {}
}
