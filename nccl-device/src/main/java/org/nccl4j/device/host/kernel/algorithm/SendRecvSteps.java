package org.nccl4j.device.host.kernel.algorithm;

import java.util.List;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.memory.HostMemory;

/**
 * Sends and receives in steps: those of a step begin once the step before has ended on this rank.
 * Data that it has exposed may still be read then, so no step writes what one before it sends.
 */
public final class SendRecvSteps implements Kernel {
  private final SendRecv[] steps;

  public SendRecvSteps(List<SendRecv> steps) {
    this.steps = steps.toArray(SendRecv[]::new);
  }

  @Override
  @HotPath
  public void run(HostMemory send, HostMemory recv) {
    for (SendRecv step : steps) {
      step.run(send, recv);
    }
  }
}
