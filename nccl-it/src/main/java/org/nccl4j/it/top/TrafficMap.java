package org.nccl4j.it.top;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SortedSet;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.nccl4j.topo.path.Routes;

/**
 * Maps the ranks' traffic to the links of the hosts' machines, over the paths of the topology. What
 * takes a path that is not known is named instead. One thread.
 */
final class TrafficMap {
  /** Most hosts that are drawn. */
  static final int MOST_HOSTS = 16;

  private final Function<String, Optional<Routes>> machines;
  private final Map<String, Optional<Routes>> known = new HashMap<>();

  /**
   * A map.
   *
   * @param machines the machine of each host; asked once for each
   */
  TrafficMap(Function<String, Optional<Routes>> machines) {
    this.machines = machines;
  }

  /** The hosts of a frame's ranks, sorted. */
  static SortedSet<String> hosts(Frame frame) {
    return frame.communicators().stream()
        .flatMap(communicator -> communicator.ranks().stream())
        .map(rank -> rank.process().host())
        .collect(Collectors.toCollection(TreeSet::new));
  }

  /** The hosts of a frame by name, as many as are drawn. */
  List<HostTraffic> of(Frame frame) {
    return hosts(frame).stream()
        .limit(MOST_HOSTS)
        .map(host -> HostFlows.of(host, known.computeIfAbsent(host, machines), frame))
        .toList();
  }
}
