package org.nccl4j.it.top;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.nccl4j.device.DebugLog;
import org.nccl4j.it.topo.HostMachine;
import org.nccl4j.topo.path.Routes;

/** The machines of hosts: this one's, and those of topology files that the user names. */
final class HostMachines {
  private static final String ALL = "";

  private final Map<String, Routes> machines = new HashMap<>();

  /**
   * Finds the machines.
   *
   * @param files each FILE, for all hosts without another, or HOST=FILE
   * @throws org.nccl4j.topo.TopologyException if one cannot be read
   */
  HostMachines(List<String> files) {
    for (String each : files) {
      int equals = each.indexOf('=');
      String host = equals < 0 ? ALL : each.substring(0, equals);
      machines.put(host, HostMachine.of(Path.of(each.substring(equals + 1))));
    }
    String here = DebugLog.hostName();
    if (!machines.containsKey(here) && !machines.containsKey(ALL)) {
      HostMachine.here().ifPresent(routes -> machines.put(here, routes));
    }
  }

  /** The machine of a host; empty if it is not known. */
  Optional<Routes> of(String host) {
    return Optional.ofNullable(machines.getOrDefault(host, machines.get(ALL)));
  }
}
