package org.nccl4j.device.host.kernel;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.Ends;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.stream.StreamOperation;
import org.nccl4j.device.kernel.KernelPlan;

/** A prepared kernel, run when it is its communicator's turn. */
final class HostPlan implements KernelPlan, StreamOperation {
  private final Turns turns;
  private final Ends ends;
  private final Kernel kernel;

  HostPlan(Turns turns, Ends ends, Kernel kernel) {
    this.turns = turns;
    this.ends = ends;
    this.kernel = kernel;
  }

  @Override
  @HotPath
  public void run(HostMemory send, HostMemory recv, long ticket) {
    turns.run(kernel, ends, send, recv, ticket);
  }
}
