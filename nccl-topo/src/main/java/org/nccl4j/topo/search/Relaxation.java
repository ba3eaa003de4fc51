package org.nccl4j.topo.search;

import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.Pattern;
import org.nccl4j.topo.path.PathTable;
import org.nccl4j.topo.system.NodeAttributes;

/**
 * The order in which conditions are relaxed when a try does not find a perfect solution: equal
 * channels, the better tree, near GPUs, near networks, one card per channel, and last speed.
 */
final class Relaxation {
  private static final int HOPPER = 90;
  private static final int TOTAL_STEPS = 1 << 19;

  private final SearchSpace space;
  private final SearchState state;
  private final SearchState best;
  private final Speeds speeds;
  private final boolean trySame;
  private final int crossNic;
  private final PathType minIntra;
  private final PathType maxIntra;
  private final PathType minInter;
  private final PathType maxInter;
  private long stepsLeft = TOTAL_STEPS;

  Relaxation(SearchSpace space, SearchState state, SearchState best, Speeds speeds, int crossNic) {
    this.space = space;
    this.state = state;
    this.best = best;
    this.speeds = speeds;
    this.crossNic = crossNic;
    this.trySame = state.sameChannels;
    PathTable paths = space.routes.paths();
    PathType farGpu = space.gpus.size() > 1 ? paths.farthest(NodeType.GPU) : PathType.SYS;
    PathType farNet = space.inter ? paths.farthest(NodeType.NET) : PathType.SYS;
    this.minIntra = state.typeIntra;
    this.maxIntra = space.inter ? farNet : farGpu;
    this.minInter = state.typeInter;
    // Before Hopper, balanced trees sometimes have to come back over the CPU.
    this.maxInter = space.machine.minSm() < HOPPER ? PathType.SYS : farNet;
  }

  /**
   * Loosens the state; false if there is nothing more to give up.
   *
   * @param last what is left of the last try's budget
   * @param steps what that budget was
   */
  boolean relax(Budget last, int steps) {
    stepsLeft -= steps;
    if (giveUpSameChannels()) {
      return true;
    }
    stepsLeft += last.left();
    if (stepsLeft < 0 && best.nChannels > 0) {
      return false;
    }
    return simplerTree() || fartherGpus() || fartherNets() || crossNics() || lowerSpeed();
  }

  private boolean giveUpSameChannels() {
    // Through AMD CPUs different channels do not help.
    boolean amd =
        space.machine.cpu().isX86(NodeAttributes.Vendor.AMD) && state.typeIntra == PathType.SYS;
    if (state.sameChannels && !amd) {
      state.sameChannels = false;
      return true;
    }
    state.sameChannels = trySame;
    return false;
  }

  private boolean simplerTree() {
    if (space.machine.minSm() >= HOPPER && state.pattern == Pattern.BALANCED_TREE) {
      state.pattern = Pattern.TREE;
      return true;
    }
    state.pattern = best.pattern;
    return false;
  }

  private boolean fartherGpus() {
    PathType limit = space.inter ? state.typeInter : maxIntra;
    boolean helps = best.nChannels == 0 || before(state.typeIntra, best.typeIntra);
    if (before(state.typeIntra, limit) && helps) {
      state.typeIntra = state.typeIntra.next();
      if (state.typeIntra != PathType.DIS) {
        return true;
      }
    }
    state.typeIntra = minIntra;
    return false;
  }

  private boolean fartherNets() {
    boolean helps =
        best.nChannels == 0
            || before(state.typeInter, best.typeInter)
            || before(state.typeInter, PathType.PXN);
    if (space.inter && before(state.typeInter, maxInter) && helps) {
      state.typeInter = state.typeInter.next();
      if (state.typeInter != PathType.DIS) {
        return true;
      }
    }
    state.typeInter = minInter;
    return false;
  }

  private boolean crossNics() {
    boolean useful = best.pattern == Pattern.RING || best.pattern == Pattern.BALANCED_TREE;
    if (crossNic == 2 && state.crossNic == 0 && useful) {
      state.crossNic = 2;
      return true;
    }
    state.crossNic = crossNic == 1 ? 1 : 0;
    return false;
  }

  private boolean lowerSpeed() {
    if (speeds.hasSlower() && (best.nChannels == 0 || speeds.peekSlower() / best.bwInter > .49)) {
      state.bwIntra = state.bwInter = speeds.slower();
      return true;
    }
    return false;
  }

  private static boolean before(PathType a, PathType b) {
    return a.ordinal() < b.ordinal();
  }
}
