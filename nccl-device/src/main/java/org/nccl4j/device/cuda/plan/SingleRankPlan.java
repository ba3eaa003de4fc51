package org.nccl4j.device.cuda.plan;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.cuda.stream.GpuStream;

/**
 * A collective of a communicator of one rank, whose result is its own data: a copy, and nothing at
 * all in place.
 */
record SingleRankPlan(CudaPlan copy) implements CudaPlan {
  @Override
  public PlanContext owner() {
    return copy.owner();
  }

  @Override
  @HotPath
  public boolean isEmpty(DeviceMemory send, DeviceMemory recv) {
    return copy.isEmpty(send, recv) || send.address() == recv.address();
  }

  @Override
  public long sendBytes() {
    return copy.sendBytes();
  }

  @Override
  public long recvBytes() {
    return copy.recvBytes();
  }

  @Override
  public int blocks() {
    return copy.blocks();
  }

  @Override
  public void launch(long send, long recv, GpuStream stream) {
    copy.launch(send, recv, stream);
  }

  @Override
  public void discard() {
    copy.discard();
  }

  @Override
  public String toString() {
    return copy.toString();
  }
}
