package org.nccl4j.topo.search;

import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.Pattern;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.path.PathTable;
import org.nccl4j.topo.system.TopologyLog;

/**
 * The search for one graph. A first pass relaxes the requirements until a graph is found; a second
 * pass then tries to increase its speed. Owned by the thread that searches.
 */
final class GraphSearch {
  private static final int MAX_NVLS_HEADS = 32;
  private static final int MAX_COLLNET_HEADS = 8;
  private static final int STEPS = 1 << 14;
  private static final int STEPS_SAME_CHANNELS = 1 << 8;

  private final SearchSpace space;
  private final SearchState best;
  private final SearchState state;
  private final Speeds speeds;
  private final int crossNic;

  GraphSearch(SearchSpace space, GraphKind kind, int minChannels, int maxChannels) {
    this.space = space;
    this.best = new SearchState(kind, space.gpus.size(), minChannels, maxChannels);
    this.state = new SearchState(kind, space.gpus.size(), minChannels, maxChannels);
    this.speeds = new Speeds(space.machine.minSm(), space.inter);
    this.crossNic = wantedCrossNic(kind.pattern());
  }

  /** The best graph found; without channels if there is none and none can be made up. */
  SearchState search() {
    askForTheBest();
    state.copyFrom(best);
    state.bwIntra = state.bwInter = startSpeed();
    firstPass();
    best.duplicate(space.machine.minSm());
    state.copyFrom(best);
    secondPass();
    if (best.nChannels == 0 && !best.kind.needsCollNet() && best.pattern != Pattern.NVLS) {
      makeUp();
    }
    return best;
  }

  private int wantedCrossNic(Pattern pattern) {
    boolean possible =
        pattern == Pattern.RING
            || pattern == Pattern.BALANCED_TREE
            || pattern == Pattern.SPLIT_TREE;
    return possible && space.machine.nets().size() > 1 ? space.settings.crossNic() : 0;
  }

  private void askForTheBest() {
    PathTable paths = space.routes.paths();
    int gpus = space.gpus.size();
    best.crossNic = crossNic == 1 ? 1 : 0;
    best.typeIntra = gpus > 1 ? paths.nearest(NodeType.GPU) : PathType.LOC;
    best.typeInter = space.inter ? paths.nearest(NodeType.NET) : PathType.PIX;
    best.sameChannels = best.pattern != Pattern.NVLS;
    if (best.pattern == Pattern.NVLS) {
      best.maxChannels = Math.min(MAX_NVLS_HEADS, gpus);
    }
    if (best.pattern == Pattern.COLLNET_DIRECT) {
      best.maxChannels = Math.min(MAX_COLLNET_HEADS, gpus);
    }
    if (gpus == 1 && best.pattern != Pattern.RING) {
      best.pattern = Pattern.TREE;
    }
    if (!space.inter && best.pattern == Pattern.NVLS) {
      // Within one machine all GPUs must pull evenly.
      best.minChannels = best.maxChannels;
    }
    boolean two = best.maxChannels >= 2 && best.minChannels == 1;
    if (best.pattern == Pattern.RING && two && space.nvLinkIsSplit()) {
      // Trees will do better over the slow link, need two channels, and get as many as rings.
      best.minChannels = 2;
    }
  }

  private float startSpeed() {
    float total = space.totalBandwidth;
    int devices = space.machine.devices().size();
    if (devices > 1 && best.pattern != Pattern.RING) {
      // Only rings come back to where they started.
      total = (float) (total * (devices * 1.0 / (devices - 1)));
    }
    float speed = speeds.startAtMost(space.maxBandwidth);
    while (speed * best.minChannels > total && speeds.hasSlower()) {
      speed = speeds.slower();
    }
    return speed;
  }

  private void firstPass() {
    Relaxation relaxation = new Relaxation(space, state, best, speeds, crossNic);
    int steps = steps();
    Budget budget = attempt();
    while (!isEnough(budget) && relaxation.relax(budget, steps)) {
      steps = steps();
      budget = attempt();
    }
  }

  private void secondPass() {
    state.bwIntra = state.bwInter = speeds.startAtMost(best.bwInter);
    state.minChannels = best.nChannels;
    Budget budget = null;
    while ((budget == null || !budget.isUsedUp()) && speeds.hasFaster() && speedUp()) {
      budget = attempt();
    }
  }

  /** Asks for more speed; false if the pattern has no use for it. */
  private boolean speedUp() {
    if (best.pattern == Pattern.RING) {
      state.bwIntra = state.bwInter = speeds.faster();
      return true;
    }
    if (best.pattern == Pattern.NVLS
        && state.bwInter == best.bwInter
        && state.bwInter < state.bwIntra * 2) {
      state.minChannels = state.maxChannels = best.nChannels;
      state.bwInter = speeds.faster();
      return true;
    }
    if (state.bwIntra == best.bwIntra && state.bwIntra < state.bwInter * 2) {
      state.bwIntra = speeds.faster();
      return true;
    }
    return false;
  }

  private int steps() {
    return state.sameChannels ? STEPS_SAME_CHANNELS : STEPS;
  }

  private Budget attempt() {
    Budget budget = new Budget(steps());
    state.nChannels = 0;
    new ChannelSearch(space, state, best, budget).run();
    return budget;
  }

  private boolean isEnough(Budget budget) {
    return budget.isPerfect() || best.totalInter() >= space.totalBandwidth;
  }

  /** One slow channel in the order of the machine, so that communication works at all. */
  private void makeUp() {
    int last = best.gpus - 1;
    boolean networked =
        space.nets.preferred(0) != SearchState.NO_NET
            && space.nets.preferred(last) != SearchState.NO_NET;
    if (space.settings.matchesNccl() && !networked) {
      throw new TopologyException(
          "no graph can be made",
          space.gpus.get(0).toString(),
          "no channel was found, and NCCL makes none up without a network",
          "unset NCCL4J_TOPO_COMPAT, or allow longer paths with NCCL_P2P_LEVEL=SYS");
    }
    TopologyLog.warn(
        "No path fits a {0} of {1} GPUs; one slow channel in the order of the machine is used."
            + " Check the topology file, or allow longer paths with NCCL_P2P_LEVEL=SYS.",
        best.kind.label(), best.gpus);
    for (int g = 0; g <= last; g++) {
      best.setGpu(0, g, g);
    }
    best.bwIntra = 0.1f;
    best.typeIntra = PathType.SYS;
    best.setNetIn(0, space.nets.preferred(0));
    best.setNetOut(0, space.nets.preferred(last));
    best.bwInter = networked ? 0.1f : 0;
    best.typeInter = networked ? PathType.SYS : PathType.DIS;
    best.nChannels = 1;
  }
}
