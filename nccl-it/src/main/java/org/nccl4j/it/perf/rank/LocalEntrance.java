package org.nccl4j.it.perf.rank;

import java.util.Collections;
import java.util.List;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.device.NcclException;

/** Ranks of one process: the first to come makes the communicators of all. */
final class LocalEntrance implements Entrance {
  private List<Communicator> communicators;
  private NcclException failure;

  @Override
  public synchronized Communicator join(RankSpec spec, String uniqueId, CommunicatorConfig config) {
    if (failure != null) {
      throw failure.again();
    }
    if (communicators == null) {
      try {
        communicators =
            Communicator.initAll(Collections.nCopies(spec.nRanks(), Devices.host()), config);
      } catch (NcclException e) {
        failure = e;
        throw e;
      }
    }
    return communicators.get(spec.rank());
  }
}
