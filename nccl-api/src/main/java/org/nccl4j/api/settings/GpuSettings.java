package org.nccl4j.api.settings;

import java.util.List;
import java.util.function.Function;
import org.nccl4j.api.spi.Setting;

/** The settings of ranks on GPUs: how kernels are launched and how memory is shared. */
public final class GpuSettings {
  public static final Setting<Integer> NCCL_CGA_CLUSTER_SIZE =
      Setting.number(
          "NCCL_CGA_CLUSTER_SIZE",
          0,
          0,
          8,
          "Blocks of a cluster on GPUs of compute capability 9.0 or newer; reduced until it divides"
              + " the blocks of an operation; 0: no clusters.");

  public static final Setting<Boolean> NCCL_LAUNCH_ORDER_IMPLICIT =
      Setting.flag(
          "NCCL_LAUNCH_ORDER_IMPLICIT",
          false,
          "Runs the operations of a process's communicators on each GPU in the order of the calls,"
              + " whatever their streams, so that they cannot block each other. All ranks must call"
              + " in the same order. Captured operations are ordered only by their streams.");

  public static final Setting<KernelPreload> NCCL4J_PRELOAD_KERNELS =
      Setting.of(
          "NCCL4J_PRELOAD_KERNELS",
          KernelPreload.EVERY,
          KernelPreload.ALLOWED,
          "The kernels that a process's first communicator of several ranks on a GPU loads at its"
              + " creation: all kernels that only copy, and those of the named types for"
              + " reductions, quantised sums and experts. Other kernels are loaded when an"
              + " operation first needs them, whatever CUDA_MODULE_LOADING says. That load can wait"
              + " for kernels of other communicators on that GPU, so two communicators whose first"
              + " operations come in opposite orders on two ranks wait for each other. none: a"
              + " faster first creation, for programs with one communicator.",
          new KernelPreload.Parser());

  public static final Setting<String> NCCL4J_NVRTC =
      Setting.text(
          "NCCL4J_NVRTC",
          "",
          "libnvrtc.so or the folder of it; empty to look for it by its sonames, in"
              + " /usr/local/cuda* and in the system's Python packages",
          "The compiler (NVRTC) of reductions by functions in CUDA C++ that are given as source."
              + " It is loaded when such a reduction is first prepared on a GPU.");

  public static final Setting<Boolean> NCCL4J_GROUP_FUSE =
      Setting.flag(
          "NCCL4J_GROUP_FUSE",
          true,
          "Runs consecutive collectives of a group at the same time, if they do not use each"
              + " other's results: by one kernel if they use DirectLL and have the same type, each"
              + " on a part of the channels if they go over connections and are of 512 KiB to 64"
              + " MiB. Then all ranks must have the same collectives in a group. 0: a kernel on all"
              + " channels for each collective. All ranks must have the same value.");

  public static final Setting<Integer> NCCL_COMM_SPLIT_SHARE_RESOURCES =
      Setting.number(
          "NCCL_COMM_SPLIT_SHARE_RESOURCES",
          2,
          0,
          2,
          "The connections of a split, if the program does not choose. 0: its own, with tens of MiB"
              + " of GPU memory, and parent and split can run at the same time. 1: its parent's,"
              + " without device memory, and operations of both run one after the other. 2: as 1,"
              + " but a split on GPUs gets its own if it would have NVLS with them, which needs 3 ranks"
              + " on each machine unless a setting asks for NVLS.");

  public static final Setting<Boolean> NCCL4J_P2P_CHECK =
      Setting.flag(
          "NCCL4J_P2P_CHECK",
          true,
          "Tests at creation that each pair of GPUs can open each other's memory and that data"
              + " arrive unchanged; a pair that fails uses the next transport. With 0, memory that"
              + " cannot be opened is an error.");

  public static final Setting<Boolean> NCCL_CUMEM_ENABLE =
      Setting.flag(
          "NCCL_CUMEM_ENABLE",
          true,
          "Shares GPU memory through file descriptors, which windows need; with 0 through CUDA"
              + " IPC.");

  public static final Setting<Integer> NCCL_MNNVL_ENABLE =
      Setting.number(
          "NCCL_MNNVL_ENABLE",
          2,
          0,
          2,
          "Multi-node NVLink: GPUs of several hosts, or of containers of a host that share no memory,"
              + " use each other's memory if they are of one NVLink clique."
              + " 0: no; 2: if they can; 1: on one host too, and an error if they cannot.");

  public static final Setting<Long> NCCL_MNNVL_UUID =
      wide("NCCL_MNNVL_UUID", "Replaces the number of the NVLink domain; -1: the driver's number.");

  public static final Setting<Long> NCCL_MNNVL_CLIQUE_ID =
      wide(
          "NCCL_MNNVL_CLIQUE_ID",
          "Replaces the clique within the NVLink domain; -1: the driver's clique; -2: a clique for"
              + " each serial number of a chassis.");

  public static final Setting<Boolean> NCCL4J_WARMUP =
      Setting.flag(
          "NCCL4J_WARMUP",
          true,
          "Creates and closes a communicator on the host in the background while the driver"
              + " starts, so that the first communicator on GPUs takes less time; 0: only"
              + " loads classes.");

  static final List<Setting<?>> ALL =
      List.of(
          NCCL_CGA_CLUSTER_SIZE,
          NCCL_LAUNCH_ORDER_IMPLICIT,
          NCCL4J_PRELOAD_KERNELS,
          NCCL4J_NVRTC,
          NCCL4J_GROUP_FUSE,
          NCCL_COMM_SPLIT_SHARE_RESOURCES,
          NCCL4J_P2P_CHECK,
          NCCL_CUMEM_ENABLE,
          NCCL_MNNVL_ENABLE,
          NCCL_MNNVL_UUID,
          NCCL_MNNVL_CLIQUE_ID,
          NCCL4J_WARMUP);

  private GpuSettings() {}

  /** A number of 64 bits; -1 by default. */
  private static Setting<Long> wide(String name, String sentence) {
    return Setting.of(
        name, -1L, "a whole number, decimal or with 0x in front", sentence, new WideParser());
  }

  private record WideParser() implements Function<String, Long> {
    @Override
    public Long apply(String text) {
      return Long.decode(text);
    }
  }
}
