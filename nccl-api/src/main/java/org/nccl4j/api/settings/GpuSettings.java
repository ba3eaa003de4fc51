package org.nccl4j.api.settings;

import java.util.List;

/** The settings of ranks on GPUs: how kernels are launched and how memory is shared. */
public final class GpuSettings {
  public static final Setting<Integer> NCCL_CGA_CLUSTER_SIZE =
      Setting.number(
          "NCCL_CGA_CLUSTER_SIZE",
          0,
          0,
          8,
          "Blocks of a cluster, which a GPU of compute capability 9.0 or newer runs beside each"
              + " other; less where it does not divide an operation's blocks; 0: kernels are"
              + " launched without clusters.");

  public static final Setting<Boolean> NCCL_LAUNCH_ORDER_IMPLICIT =
      Setting.flag(
          "NCCL_LAUNCH_ORDER_IMPLICIT",
          false,
          "Runs the operations of a process's communicators on each GPU in the order of their"
              + " calls, whatever their streams, so that they cannot keep each other from starting;"
              + " all ranks have to call in one order. Captured operations are ordered by their"
              + " streams alone.");

  public static final Setting<KernelPreload> NCCL4J_PRELOAD_KERNELS =
      Setting.kernelPreload(
          "NCCL4J_PRELOAD_KERNELS",
          "Kernels that a process's first communicator on a GPU loads at its creation: all that"
              + " only copy, and those that reduce the types named. Others are loaded when an"
              + " operation first needs them, which can wait for kernels of other communicators on"
              + " that GPU; two communicators whose first operations come in opposite order on two"
              + " ranks then wait for each other. auto: all with CUDA_MODULE_LOADING=EAGER, else"
              + " none.");

  public static final Setting<Integer> NCCL_COMM_SPLIT_SHARE_RESOURCES =
      Setting.number(
          "NCCL_COMM_SPLIT_SHARE_RESOURCES",
          2,
          0,
          2,
          "Whether what is split from a communicator uses its connections, where the program does"
              + " not say: 0: it has its own, tens of MiB of a GPU, and both work at once; 1: it"
              + " does, takes no device memory, and operations of both are in one order; 2: as 1,"
              + " but not where a GPU's split would have NVLS with connections of its own.");

  public static final Setting<Boolean> NCCL4J_P2P_CHECK =
      Setting.flag(
          "NCCL4J_P2P_CHECK",
          true,
          "Tries at creation whether each pair of GPUs opens the other's memory and data arrive"
              + " unchanged, and takes the next transport where not; with 0 memory that cannot be"
              + " opened ends creation.");

  public static final Setting<Boolean> NCCL_CUMEM_ENABLE =
      Setting.flag(
          "NCCL_CUMEM_ENABLE",
          true,
          "Shares GPUs' memory by file descriptors, which windows need; with 0 by CUDA IPC.");

  public static final Setting<Integer> NCCL_MNNVL_ENABLE =
      Setting.number(
          "NCCL_MNNVL_ENABLE",
          2,
          0,
          2,
          "Whether GPUs of several hosts of one NVLink clique use each other's memory (multi-node"
              + " NVLink); 2: where they can; 1: also asked on one host, and an error where they"
              + " cannot.");

  public static final Setting<Long> NCCL_MNNVL_UUID =
      Setting.wide(
          "NCCL_MNNVL_UUID",
          -1,
          "The number of the NVLink domain, in place of what the driver says; -1: the driver's.");

  public static final Setting<Long> NCCL_MNNVL_CLIQUE_ID =
      Setting.wide(
          "NCCL_MNNVL_CLIQUE_ID",
          -1,
          "The clique within the NVLink domain, in place of what the driver says; -1: the driver's;"
              + " -2: by the serial number of the chassis.");

  public static final Setting<Boolean> NCCL4J_REHEARSAL =
      Setting.flag(
          "NCCL4J_REHEARSAL",
          true,
          "Makes and closes a communicator on the host in the background while the driver starts,"
              + " so that the first one on GPUs takes less; with 0 nothing is done ahead but to"
              + " load classes.");

  static final List<Setting<?>> ALL =
      List.of(
          NCCL_CGA_CLUSTER_SIZE,
          NCCL_LAUNCH_ORDER_IMPLICIT,
          NCCL4J_PRELOAD_KERNELS,
          NCCL_COMM_SPLIT_SHARE_RESOURCES,
          NCCL4J_P2P_CHECK,
          NCCL_CUMEM_ENABLE,
          NCCL_MNNVL_ENABLE,
          NCCL_MNNVL_UUID,
          NCCL_MNNVL_CLIQUE_ID,
          NCCL4J_REHEARSAL);

  private GpuSettings() {}
}
