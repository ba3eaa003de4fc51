package org.nccl4j.api.init;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.topo.cluster.Fleet;
import org.nccl4j.topo.xml.TopologyXml;

/**
 * The last few searches of this process. Its ranks search the same machines with the same settings,
 * and so do communicators that are made later: one search serves all. Any thread.
 */
final class KnownFleets {
  private static final int MOST = 4;

  private static final Map<Key, Search> KNOWN =
      new LinkedHashMap<>(MOST, 0.75f, true) {
        @Override
        protected boolean removeEldestEntry(Map.Entry<Key, Search> eldest) {
          return size() > MOST;
        }
      };

  private record Key(List<String> machines, Map<String, String> settings, boolean gpus) {}

  /** Made by whoever comes first; the others wait for it. */
  private static final class Search {
    private Fleet found;

    synchronized Fleet get(Supplier<Fleet> search) {
      if (found == null) {
        found = search.get();
      }
      return found;
    }
  }

  private KnownFleets() {}

  /**
   * What a search finds, unless it is known. What it throws is not kept; nor is what it read from a
   * file, which may change.
   */
  static Fleet of(MachineSurvey survey, Map<String, String> settings, Supplier<Fleet> search) {
    if (settings.containsKey(Settings.NCCL_GRAPH_FILE.name())) {
      return search.get();
    }
    List<String> machines = new ArrayList<>();
    for (Fleet.Host host : survey.hosts()) {
      machines.add(TopologyXml.write(host.system()) + Arrays.toString(host.ranks()));
    }
    Key key = new Key(List.copyOf(machines), Map.copyOf(settings), survey.gpus());
    Search one;
    synchronized (KNOWN) {
      one = KNOWN.computeIfAbsent(key, missing -> new Search());
    }
    return one.get(search);
  }
}
