package org.nccl4j.it.api;

import org.nccl4j.api.Communicator;
import org.nccl4j.api.ExpertConfig;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceStream;

/** A rank of {@link ExpertsTest} or {@link ExpertsGpuTest} in a process of its own. */
final class ExpertRank implements HostProcesses.Program {
  private static final int ROUNDS = 6;

  @Override
  public void run(Communicator comm, DeviceStream stream, String hosts, long seed) {
    ExpertConfig sizes = new ExpertConfig(9, 128, 3, 6, DataType.BFLOAT16, true);
    Experts.run(comm, stream, sizes, ROUNDS, seed);
  }
}
