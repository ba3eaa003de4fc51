package org.nccl4j.device.cuda.window;

import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.module.KernelModules;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.WindowWork;
import org.nccl4j.device.symmetric.MulticastMemory;
import org.nccl4j.device.symmetric.SymmetricSpace;
import org.nccl4j.device.symmetric.WindowView;

/** Additional memory and arguments of direct kernels that use multicast. */
final class NvlsDirectPlans {
  private final KernelModules kernels;
  private final Nvls nvls;
  private final SymmetricSpace space;

  /**
   * Creates the plans of a communicator.
   *
   * @param nvls its place in NVLS, or null
   */
  NvlsDirectPlans(KernelModules kernels, Nvls nvls, SymmetricSpace space) {
    this.kernels = kernels;
    this.nvls = nvls;
    this.space = space;
  }

  /** Throws unless all that a work touches is reached by multicast, and it has the operation. */
  void check(WindowWork work) {
    boolean lines = work.algorithm().isLines();
    boolean reached =
        nvls != null
            && (lines
                ? isReached(space.resources())
                : isReached(work.send()) && isReached(work.recv()));
    if (!reached || !nvls.combines(work.operation(), work.algorithm(), work.type(), work.op())) {
      throw new InvalidUsageException(
          ErrorId.UNSUPPORTED,
          "%s of %s (%s) by NVLS on %s, %s"
              .formatted(
                  work.operation(),
                  work.type().label(),
                  work.op().label(),
                  lines ? "lines" : "windows",
                  reached ? "which does not have it" : "which no multicast object reaches"),
          "leave NCCL_ALGO to the library for this operation");
    }
  }

  private static boolean isReached(WindowView window) {
    return window == null || window.multicast() != null;
  }

  /** Most blocks that are of use: as many as of the kernels that go through slots. */
  int mostBlocks() {
    return nvls.layout().nChannels();
  }

  /** Completes arguments of {@link NvlsDirectArguments#SIZE}. */
  void put(Offheap arguments, WindowWork work) {
    put(arguments, NvlsDirectArguments.SEND_MULTICAST, work.send(), true);
    put(arguments, NvlsDirectArguments.RECV_MULTICAST, work.recv(), true);
    put(arguments, NvlsDirectArguments.RESOURCES_MULTICAST, space.resources(), false);
    arguments
        .putInt(NvlsDirectArguments.N_HEADS, nvls.heads().size())
        .putInt(NvlsDirectArguments.HEAD_RANK, nvls.headRank());
  }

  /** The switch's view; the emulation has one of each rank, which the arguments say already. */
  private static void put(Offheap arguments, int offset, WindowView window, boolean distance) {
    MulticastMemory all = window == null ? null : window.multicast();
    if (all != null && !all.emulated()) {
      long address = all.views().get(0).address();
      arguments.putLong(offset, distance ? address - window.address() : address);
    }
  }

  long kernel(WindowWork work) {
    return kernels.nvls(
        work.operation().reduces(),
        work.type(),
        work.algorithm().isLines() ? "nccl4j_nvls_ll" : "nccl4j_nvls_window",
        nvls.multicast().emulated());
  }
}
