package org.nccl4j.it.perf.rank;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.device.NcclException;

/** Ranks of one process: the first to come with an id makes the communicators of all. */
final class LocalEntrance implements CommunicatorSource {
  private final Map<String, List<Communicator>> made = new HashMap<>();
  private NcclException failure;

  @Override
  public synchronized Communicator join(RankSpec spec, String uniqueId, CommunicatorConfig config) {
    if (failure != null) {
      throw failure.again();
    }
    List<Communicator> communicators = made.get(uniqueId);
    if (communicators == null) {
      try {
        communicators = Communicator.initAll(spec.devices(), config);
      } catch (NcclException e) {
        failure = e;
        throw e;
      }
      made.put(uniqueId, communicators);
    }
    return communicators.get(spec.rank());
  }
}
