package org.nccl4j.api.init.topology;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Supplier;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.topo.cluster.CommTopology;
import org.nccl4j.topo.xml.TopologyXml;

/**
 * The last few searches of this process. Its ranks search the same machines with the same settings,
 * and so do communicators that are made later: one search serves all. Any thread.
 */
final class TopologyCache {
  private static final int MOST = 4;

  /** Searches by the text of everything that decides their result. */
  private static final Map<String, Search> KNOWN =
      new LinkedHashMap<>(MOST, 0.75f, true) {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Search> eldest) {
          return size() > MOST;
        }
      };

  /** Made by the first rank that comes; the others wait for it. */
  private static final class Search {
    private CommTopology found;

    synchronized CommTopology get(Supplier<CommTopology> search) {
      if (found == null) {
        found = search.get();
      }
      return found;
    }
  }

  private TopologyCache() {}

  /**
   * Returns the result of a search, unless the search is already known. An error is not kept. A
   * result read from a file is not kept either, because the file may change.
   */
  static CommTopology of(
      TopologyExchange survey, Map<String, String> settings, Supplier<CommTopology> search) {
    if (settings.containsKey(Settings.NCCL_GRAPH_FILE.name())) {
      return search.get();
    }
    StringBuilder key = new StringBuilder(new TreeMap<>(settings).toString());
    key.append(survey.gpus());
    for (CommTopology.Host host : survey.hosts()) {
      key.append(TopologyXml.write(host.system())).append(Arrays.toString(host.ranks()));
    }
    Search one;
    synchronized (KNOWN) {
      one = KNOWN.computeIfAbsent(key.toString(), missing -> new Search());
    }
    return one.get(search);
  }
}
