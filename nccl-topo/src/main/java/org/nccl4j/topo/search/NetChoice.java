package org.nccl4j.topo.search;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.Pattern;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.path.Routes;
import org.nccl4j.topo.system.Machine;
import org.nccl4j.topo.system.Node;
import org.nccl4j.topo.system.NodeAttributes;

/**
 * The networks from which a channel may start and to which it may return, in the order of the
 * attempts.
 */
final class NetChoice {
  private static final int ALL_GPUS = -1;

  private final Routes routes;
  private final Machine machine;
  private final TopoSettings settings;
  private final Map<List<Object>, int[]> known = new HashMap<>();

  NetChoice(Routes routes, TopoSettings settings) {
    this.routes = routes;
    this.machine = routes.machine();
    this.settings = settings;
  }

  /** Networks to start from, for any GPU. */
  int[] forAll(PathType limit) {
    return select(limit, ALL_GPUS);
  }

  /** Networks to return to from one GPU. */
  int[] forGpu(PathType limit, int gpu) {
    return select(limit, gpu);
  }

  /** The network that a GPU likes best, or {@link SearchState#NO_NET}. */
  int preferred(int gpu) {
    Node node = machine.gpus().get(gpu);
    return routes.locality().nearest(node, NodeType.NET).nodes().isEmpty()
        ? SearchState.NO_NET
        : routes.locality().netOf(node, 0).index();
  }

  private int[] select(PathType limit, int gpu) {
    return known.computeIfAbsent(List.of(limit, gpu), key -> compute(limit, gpu));
  }

  private int[] compute(PathType limit, int gpu) {
    List<Node> gpus = gpu == ALL_GPUS ? machine.gpus() : List.of(machine.gpus().get(gpu));
    boolean scatter = settings.get(TopoSettings.NCCL_MNNVL_SCATTER_NETS_ENABLE);
    Set<Node> chosen = machine.hosts() > 1 && scatter ? roundRobin(gpus) : oneByOne(gpus);
    int perGpu = routes.locality().maxNets();
    int max = perGpu == 0 ? Integer.MAX_VALUE : perGpu * gpus.size();
    if (chosen.size() < max) {
      addWithin(limit, gpus, chosen, max);
    }
    return chosen.stream().mapToInt(Node::index).toArray();
  }

  private Set<Node> oneByOne(List<Node> gpus) {
    Set<Node> chosen = new LinkedHashSet<>();
    gpus.forEach(gpu -> chosen.addAll(routes.locality().netsOf(gpu)));
    return chosen;
  }

  /** Over several hosts the first choice of each GPU comes before any second choice. */
  private Set<Node> roundRobin(List<Node> gpus) {
    List<List<Node>> wanted = new ArrayList<>();
    gpus.forEach(gpu -> wanted.add(routes.locality().netsOf(gpu)));
    Set<Node> chosen = new LinkedHashSet<>();
    int rounds = wanted.stream().mapToInt(List::size).max().orElse(0);
    for (int round = 0; round < rounds; round++) {
      for (List<Node> nets : wanted) {
        if (round < nets.size()) {
          chosen.add(nets.get(round));
        }
      }
    }
    return chosen;
  }

  private void addWithin(PathType limit, List<Node> gpus, Set<Node> chosen, int max) {
    for (PathType type = PathType.LOC; type.within(limit); type = type.next()) {
      for (Node gpu : gpus) {
        for (Node net : firstNets()) {
          if (routes.paths().path(gpu, net).type() == type) {
            chosen.add(net);
            if (chosen.size() >= max) {
              return;
            }
          }
        }
      }
      if (type == PathType.DIS) {
        return;
      }
    }
  }

  private List<Node> firstNets() {
    return machine.nets().subList(0, Math.min(machine.nets().size(), TopoSettings.MAX_CHANNELS));
  }

  /** True if a channel that started at its network may return to another. */
  boolean mayReturn(SearchState state, int net, int step) {
    Node startNode = machine.nets().get(state.netIn(state.nChannels));
    Node netNode = machine.nets().get(net);
    NodeAttributes.Net start = startNode.net();
    NodeAttributes.Net end = netNode.net();
    if (end.plane() >= 0 && start.plane() >= 0 && end.plane() != start.plane()) {
      return false;
    }
    if (state.pattern == Pattern.TREE && netNode != startNode) {
      return false;
    }
    if (state.pattern == Pattern.RING && state.crossNic == 2) {
      // Rings come in pairs; the second is the first one backwards.
      boolean second = (state.nChannels & 1) != 0;
      if (second && net != state.netIn(state.nChannels - 1)) {
        return false;
      }
    } else if (state.crossNic == 0 && !sameRail(startNode, netNode)) {
      return false;
    }
    return state.pattern != Pattern.BALANCED_TREE
        || step == 0
        || net == state.netOut(state.nChannels);
  }

  private boolean sameRail(Node startNode, Node endNode) {
    NodeAttributes.Net start = startNode.net();
    NodeAttributes.Net end = endNode.net();
    if (end.rail() >= 0 && start.rail() >= 0) {
      return end.rail() == start.rail();
    }
    boolean perHost = settings.get(TopoSettings.NCCL_MNNVL_RAIL_PER_HOST);
    if (perHost && startNode.host() != endNode.host()) {
      return end.bus().equals(start.bus()) && end.port() == start.port();
    }
    return end.asic() == start.asic() && end.port() == start.port();
  }
}
