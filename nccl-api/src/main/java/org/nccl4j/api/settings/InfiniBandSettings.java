package org.nccl4j.api.settings;

import java.util.List;

/**
 * The settings of InfiniBand and RoCE, by NCCL's names and with its defaults. Read by the network,
 * through its context.
 */
final class InfiniBandSettings {
  private static final int UNSET = -1;

  static final List<Setting<?>> ALL =
      List.of(
          Setting.flag("NCCL_IB_DISABLE", false, "Forbids InfiniBand and RoCE."),
          Setting.text(
              "NCCL_IB_HCA",
              "",
              "prefixes such as mlx5,mlx4_0:1; = in front for whole names, ^ in front to exclude",
              "Which InfiniBand devices and ports may be used."),
          Setting.number(
              "NCCL_IB_GID_INDEX",
              UNSET,
              UNSET,
              1023,
              "Which GID of a port is used; -1: RoCE v2 with an IPv4 address, if there is one."),
          Setting.number(
              "NCCL_IB_ROUTABLE_FLID_GID_INDEX",
              1,
              0,
              1023,
              "Which GID an InfiniBand port uses, if it names a router to other subnets."),
          Setting.number("NCCL_IB_TC", UNSET, UNSET, 255, "Traffic class of RoCE packets; -1: 0."),
          Setting.number(
              "NCCL_IB_SL", UNSET, UNSET, 15, "Service level of InfiniBand packets; -1: 0."),
          Setting.number(
              "NCCL_IB_TIMEOUT",
              20,
              1,
              31,
              "A packet without an answer is sent again after 4.096 us times 2 to this power."),
          Setting.number("NCCL_IB_RETRY_CNT", 7, 0, 7, "How often a packet is sent again."),
          Setting.number(
              "NCCL_IB_QPS_PER_CONNECTION", 1, 1, 128, "Queue pairs of each connection."),
          Setting.flag(
              "NCCL_IB_SPLIT_DATA_ON_QPS",
              false,
              "Splits each message over all queue pairs, instead of taking them in turn."),
          Setting.number("NCCL_IB_PKEY", 0, 0, 65535, "Index of the partition key."),
          Setting.flag(
              "NCCL_DMABUF_ENABLE",
              true,
              "Whether cards are told of GPU memory by dma-bufs, where both can (GPUDirect RDMA)."),
          Setting.text(
              "NCCL_IBVERBS_LIB",
              "libibverbs.so.1",
              "a file name or path",
              "The library through which InfiniBand is used."));

  private InfiniBandSettings() {}
}
