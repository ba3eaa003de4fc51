package org.nccl4j.it.api;

import org.nccl4j.api.Communicator;
import org.nccl4j.device.DeviceStream;

/** A rank of {@link QuantisedSumsTest} in a process of its own. */
final class QuantisedRank implements HostProcesses.Program {
  @Override
  public void run(Communicator comm, DeviceStream stream, String hosts, long seed) {
    QuantisedSumsTest.checkAll(comm, stream, seed);
  }
}
