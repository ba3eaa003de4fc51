package org.nccl4j.it.perf.rank;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.NcclException;

/**
 * Ranks of one process: the first to come with an id makes the communicators of all, unless each is
 * bound to a core of its own.
 */
final class LocalEntrance implements CommunicatorSource {
  private final Map<String, List<Communicator>> made = new HashMap<>();
  private final Map<String, UniqueId> ids = new HashMap<>();
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

  @Override
  public Communicator joinBound(RankSpec spec, String uniqueId, CommunicatorConfig config) {
    UniqueId id = id(uniqueId, config);
    return Communicator.initRank(spec.nRanks(), id, spec.rank(), spec.device(spec.rank()), config);
  }

  private synchronized UniqueId id(String text, CommunicatorConfig config) {
    return ids.computeIfAbsent(text, missing -> UniqueId.create(config));
  }
}
