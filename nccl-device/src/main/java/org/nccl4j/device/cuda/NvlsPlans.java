package org.nccl4j.device.cuda;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.NvlsLayout;

/** Turns collectives by NVLS into kernels with arguments. */
final class NvlsPlans {
  private static final int THREADS = 640; // nvls::kThreads
  private static final int CHUNK_MULTIPLE = 128;

  private final CudaKernelCommunicator communicator;
  private final KernelCommunicatorSpec spec;
  private final CommunicatorMemory memory;

  /** Steps of all channels' connections; made when NVLS is first used. */
  private DeviceMemory steps;

  NvlsPlans(
      CudaKernelCommunicator communicator, KernelCommunicatorSpec spec, CommunicatorMemory memory) {
    this.communicator = communicator;
    this.spec = spec;
    this.memory = memory;
  }

  CudaKernelPlan prepare(CollectiveWork work) {
    Nvls nvls = spec.nvls();
    check(work, nvls);
    if (steps == null) {
      steps =
          communicator.allocateForPlan(
              (long) ConnectionLayout.CHANNELS
                  * KernelLayout.NVLS_HEADS
                  * KernelLayout.NVLS_STEPS_BYTES);
    }
    NvlsLayout layout = nvls.layout();
    long bytes = Math.multiplyExact(work.count(), (long) work.type().bytes());
    int channels =
        work.nChannels() > 0 ? Math.min(work.nChannels(), layout.nChannels()) : layout.nChannels();
    int chunk = Math.min(layout.chunkBytes(), work.chunkBytes()) / CHUNK_MULTIPLE * CHUNK_MULTIPLE;
    Offheap arguments = new Offheap(KernelLayout.NVLS_ARGUMENTS_BYTES);
    memory.putCommunicator(arguments);
    arguments
        .putLong(KernelLayout.NVLS_BYTES, bytes)
        .putLong(KernelLayout.NVLS_STEPS, steps.address())
        .putLong(KernelLayout.NVLS_UNICAST, nvls.unicast().address())
        .putInt(KernelLayout.NVLS_COLLECTIVE, work.collective().ordinal())
        .putInt(KernelLayout.NVLS_OP, work.op().ordinal())
        .putInt(KernelLayout.NVLS_N_CHANNELS, channels)
        .putInt(KernelLayout.NVLS_CHUNK_BYTES, Math.max(CHUNK_MULTIPLE, chunk))
        .putInt(KernelLayout.NVLS_SLOT_BYTES, layout.chunkBytes())
        .putInt(KernelLayout.NVLS_LAYOUT_CHANNELS, layout.nChannels())
        .putInt(KernelLayout.NVLS_N_HEADS, layout.nHeads())
        .putInt(KernelLayout.NVLS_HEAD_RANK, nvls.headRank());
    for (int view = 0; view < nvls.multicast().views().size(); view++) {
      arguments.putLong(
          KernelLayout.NVLS_VIEWS + 8 * view, nvls.multicast().views().get(view).address());
    }
    for (int head = 0; head < layout.nHeads(); head++) {
      arguments
          .bytes()
          .put(KernelLayout.NVLS_HEAD_RANKS + head, nvls.heads().get(head).byteValue());
    }
    return new CudaKernelPlan(
        communicator,
        arguments,
        bytes == 0
            ? null
            : communicator
                .device()
                .kernels()
                .nvls(
                    CudaKernelCommunicator.reduces(work.collective()),
                    work.type(),
                    "nccl4j_nvls",
                    nvls.multicast().emulated()),
        new CudaKernelPlan.Shape(channels, THREADS, 0),
        CudaKernelPlan.Needs.of(work, spec.rank(), spec.nRanks(), bytes));
  }

  private static void check(CollectiveWork work, Nvls nvls) {
    if (nvls == null || !Nvls.has(work.collective(), work.type(), work.op())) {
      throw new InvalidArgumentException(
          ErrorId.ALGORITHM,
          "%s of %s (%s) by NVLS, which %s"
              .formatted(
                  work.collective().label(),
                  work.type().label(),
                  work.op().label(),
                  nvls == null ? "this communicator is without" : "does not have it"),
          "use another algorithm");
    }
    if (nvls.layout().nHeads() > KernelLayout.NVLS_HEADS) {
      throw new InvalidArgumentException(
          ErrorId.ALGORITHM,
          "NVLS with %d heads; it goes up to %d"
              .formatted(nvls.layout().nHeads(), KernelLayout.NVLS_HEADS),
          "use another algorithm");
    }
  }
}
