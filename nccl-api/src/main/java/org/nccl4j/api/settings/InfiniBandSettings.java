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
              "The InfiniBand devices and ports to use."),
          Setting.number(
              "NCCL_IB_GID_INDEX",
              UNSET,
              UNSET,
              1023,
              "The GID of a port; -1: RoCE v2 with an IPv4 address, if there is one."),
          Setting.number(
              "NCCL_IB_ROUTABLE_FLID_GID_INDEX",
              1,
              0,
              1023,
              "The GID of an InfiniBand port that names a router to other subnets."),
          Setting.number(
              "NCCL_IB_TC", UNSET, UNSET, 255, "The traffic class of RoCE packets; -1: 0."),
          Setting.number(
              "NCCL_IB_SL", UNSET, UNSET, 15, "The service level of InfiniBand packets; -1: 0."),
          Setting.number(
              "NCCL_IB_TIMEOUT",
              20,
              1,
              31,
              "The time before a packet without an answer is sent again: 4.096 us times 2 to this"
                  + " power."),
          Setting.number(
              "NCCL_IB_RETRY_CNT", 7, 0, 7, "The number of times that a packet is sent again."),
          Setting.number(
              "NCCL_IB_QPS_PER_CONNECTION", 1, 1, 128, "Queue pairs of each connection."),
          Setting.flag(
              "NCCL_IB_SPLIT_DATA_ON_QPS",
              false,
              "Splits each message over all queue pairs, instead of using them in turn."),
          Setting.number("NCCL_IB_PKEY", 0, 0, 65535, "The index of the partition key."),
          Setting.flag(
              "NCCL_DMABUF_ENABLE",
              true,
              "Registers GPU memory with NICs through dma-bufs if both support it (GPUDirect"
                  + " RDMA)."),
          Setting.text(
              "NCCL_IBVERBS_LIB",
              "libibverbs.so.1",
              "a file name or path",
              "The library through which InfiniBand is used."));

  private InfiniBandSettings() {}
}
