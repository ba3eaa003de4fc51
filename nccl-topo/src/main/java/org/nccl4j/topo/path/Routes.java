package org.nccl4j.topo.path;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.system.Machine;
import org.nccl4j.topo.system.Node;

/**
 * The paths between the devices of a machine, with the rules for their use. Immutable; safe from
 * any thread.
 *
 * @param paths the paths
 * @param peers the rules between GPUs
 * @param gdr the rules between GPUs and networks
 * @param locality the nearest devices
 */
public record Routes(PathTable paths, PeerRules peers, GdrRules gdr, Locality locality) {

  /** The routes of a machine. */
  public static Routes of(Machine machine, TopoSettings settings, PeerStatus driver) {
    return new PathPlanner(machine, settings, driver).plan();
  }

  /** The machine. */
  public Machine machine() {
    return paths.machine();
  }

  /**
   * The GPUs that stay together: those of a machine that reach each other other than over the
   * network. Each list is in the order of the machine; lists are in the order of their lowest rank.
   */
  public List<List<Node>> domains() {
    List<Node> gpus = machine().gpus();
    int[] domain = new int[gpus.size()];
    for (int g = 0; g < domain.length; g++) {
      domain[g] = g;
      for (int p = 0; p < g; p++) {
        PathType type = paths.path(gpus.get(g), gpus.get(p)).type();
        if (!PathType.NET.within(type)) {
          domain[g] = Math.min(domain[g], domain[p]);
        }
      }
    }
    List<List<Node>> domains = new ArrayList<>();
    for (int id : Arrays.stream(domain).distinct().sorted().toArray()) {
      List<Node> members = new ArrayList<>();
      for (int g = 0; g < domain.length; g++) {
        if (domain[g] == id) {
          members.add(gpus.get(g));
        }
      }
      domains.add(List.copyOf(members));
    }
    domains.sort(Comparator.comparingInt(Routes::lowestRank));
    return domains;
  }

  private static int lowestRank(List<Node> gpus) {
    return gpus.stream().mapToInt(gpu -> gpu.gpu().rank()).min().orElse(0);
  }

  /** The same machine with only these GPUs, and new routes. */
  public static Routes trimmed(
      Routes whole, List<Node> gpus, TopoSettings settings, PeerStatus driver) {
    boolean all = gpus.size() == whole.machine().gpus().size();
    return all ? whole : of(whole.machine().withGpus(gpus::contains), settings, driver);
  }
}
