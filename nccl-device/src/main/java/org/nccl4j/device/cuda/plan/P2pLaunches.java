package org.nccl4j.device.cuda.plan;

import java.util.List;
import java.util.stream.Collectors;
import org.nccl4j.device.cuda.stream.GpuStream;

/**
 * Sends and receives that do not fit the GPU at once: kernels one after the other, those of the
 * nearest ranks first. Each fits the GPU as a whole. Of all messages that are not done, the one of
 * the least distance is thus in the running kernel at both ends, at whatever distance each rank
 * begins its next kernel.
 *
 * @param kernels at least one
 * @param needs of the launch's own buffers
 */
record P2pLaunches(PlanContext owner, List<CudaKernelPlan> kernels, CudaKernelPlan.Needs needs)
    implements CudaPlan {
  @Override
  public long sendBytes() {
    return needs.sendBytes();
  }

  @Override
  public long recvBytes() {
    return needs.recvBytes();
  }

  @Override
  public int blocks() {
    return kernels.stream().mapToInt(CudaKernelPlan::blocks).max().orElse(0);
  }

  @Override
  public void launch(long send, long recv, GpuStream stream) {
    for (CudaKernelPlan kernel : kernels) {
      kernel.launch(send, recv, stream);
    }
  }

  @Override
  public void discard() {
    kernels.forEach(CudaKernelPlan::discard);
  }

  @Override
  public String toString() {
    return kernels.stream().map(CudaKernelPlan::toString).collect(Collectors.joining(", then "));
  }
}
