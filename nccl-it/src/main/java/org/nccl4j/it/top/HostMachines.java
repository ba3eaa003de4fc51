package org.nccl4j.it.top;

import java.nio.file.Files;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.nccl4j.device.DebugLog;
import org.nccl4j.it.file.GivenPath;
import org.nccl4j.it.topo.HostMachine;
import org.nccl4j.topo.path.Routes;

/**
 * The machines of hosts: this one's, and those of topology files that the user names. Owner: the
 * thread that shows frames.
 */
final class HostMachines {
  private static final String ALL = "";

  private final Map<String, Routes> machines = new HashMap<>();
  private final Set<String> named = new TreeSet<>();

  /** Those of the named hosts that the last frame had no ranks on; null before the first. */
  private Set<String> missingBefore;

  private Set<String> told = Set.of();

  /**
   * Finds the machines.
   *
   * @param files each FILE, for all hosts without another, or HOST=FILE; what has a / before the
   *     first =, or names a file as a whole, is a FILE
   * @throws org.nccl4j.topo.TopologyException if one cannot be read
   */
  HostMachines(List<String> files) {
    for (String each : files) {
      int equals = equals(each);
      String host = equals < 0 ? ALL : each.substring(0, equals);
      machines.put(host, HostMachine.of(GivenPath.of(each.substring(equals + 1))));
    }
    named.addAll(machines.keySet());
    named.remove(ALL);
    String here = DebugLog.hostName();
    if (!machines.containsKey(here) && !machines.containsKey(ALL)) {
      HostMachine.here().ifPresent(routes -> machines.put(here, routes));
    }
  }

  /** The place of the = between a host and a file; -1 if there is a file alone. */
  private static int equals(String option) {
    int equals = option.indexOf('=');
    boolean isFile = option.lastIndexOf('/', equals) >= 0 || Files.exists(GivenPath.of(option));
    return equals < 0 || isFile ? -1 : equals;
  }

  /**
   * The hosts that the user named and that no rank is on, for a message. Ranks appear one after the
   * other, so two frames must agree, unless no other comes; hosts that were told are told again
   * only if they change. A frame without some roots, whose ranks may be missing, does not count.
   *
   * @param isLast no other frame comes
   */
  Optional<String> unknown(Frame frame, boolean isLast) {
    return frame.unreached().isEmpty()
        ? unknown(TrafficMap.hosts(frame), isLast)
        : Optional.empty();
  }

  Optional<String> unknown(Set<String> ofRanks, boolean isLast) {
    if (ofRanks.isEmpty()) {
      return Optional.empty();
    }
    Set<String> missing = new TreeSet<>(named);
    missing.removeAll(ofRanks);
    boolean agrees = isLast || missing.equals(missingBefore);
    missingBefore = missing;
    if (!agrees || missing.equals(told)) {
      return Optional.empty();
    }
    told = missing;
    return missing.isEmpty()
        ? Optional.empty()
        : Optional.of(
            "--machine: no rank is on %s; the ranks are on %s"
                .formatted(String.join(", ", missing), String.join(", ", new TreeSet<>(ofRanks))));
  }

  /** The machine of a host; empty if it is not known. */
  Optional<Routes> of(String host) {
    return Optional.ofNullable(machines.getOrDefault(host, machines.get(ALL)));
  }
}
