package org.nccl4j.api.init.topology;

import java.util.Map;
import java.util.function.Supplier;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.topo.cluster.CommTopology;

/**
 * The last few searches of this process. Its ranks search the same machines with the same settings,
 * and so do communicators that are made later: one search serves all. Any thread.
 */
final class TopologyCache {
  private static final RecentResults<Key, CommTopology> KNOWN = new RecentResults<>();

  private record Key(Map<String, String> settings, String machines) {}

  private TopologyCache() {}

  /**
   * Returns the result of a search, unless the search is already known. An error is not kept. A
   * result read from a file is not kept either, because the file may change.
   */
  static CommTopology of(
      TopologyExchange survey, Map<String, String> settings, Supplier<CommTopology> search) {
    return settings.containsKey(Settings.NCCL_GRAPH_FILE.name())
        ? search.get()
        : KNOWN.of(new Key(Map.copyOf(settings), survey.text()), search);
  }
}
