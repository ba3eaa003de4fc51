package org.nccl4j.device.cuda.window;

import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.plan.CudaKernelPlan;
import org.nccl4j.device.cuda.plan.CudaPlan;
import org.nccl4j.device.cuda.plan.PlanContext;
import org.nccl4j.device.cuda.stream.GpuStream;
import org.nccl4j.device.kernel.OneSidedWork;

/**
 * A copy into another rank's window by a copy engine, then its signal.
 *
 * @param signal the kernel that signals
 */
record PutPlan(PlanContext owner, OneSidedWork.Put put, CudaKernelPlan signal) implements CudaPlan {
  @Override
  public void discard() {
    signal.discard();
  }

  @Override
  public int blocks() {
    return signal.blocks();
  }

  @Override
  public void launch(long send, long recv, GpuStream stream) {
    if (put.bytes() > 0) {
      DriverLibrary.copyAsync(
          put.window().peers().get(put.place()).address() + put.offset(),
          send,
          put.bytes(),
          stream.handle(),
          owner.gpu());
    }
    signal.launch(0, 0, stream);
  }
}
