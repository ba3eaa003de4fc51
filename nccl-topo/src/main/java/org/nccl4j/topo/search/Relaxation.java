package org.nccl4j.topo.search;

import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.Pattern;
import org.nccl4j.topo.path.PathTable;
import org.nccl4j.topo.system.Facts;

/**
 * The order in which conditions are relaxed when a try does not find a perfect solution: equal
 * channels, the better tree, near GPUs, near networks, one card per channel, and last speed.
 */
final class Relaxation {
  private static final int HOPPER = 90;
  private static final int TOTAL_STEPS = 1 << 19;

  private final SearchSpace space;
  private final Draft draft;
  private final Draft best;
  private final Speeds speeds;
  private final boolean trySame;
  private final int crossNic;
  private final PathType minIntra;
  private final PathType maxIntra;
  private final PathType minInter;
  private final PathType maxInter;
  private long stepsLeft = TOTAL_STEPS;

  Relaxation(SearchSpace space, Draft draft, Draft best, Speeds speeds, int crossNic) {
    this.space = space;
    this.draft = draft;
    this.best = best;
    this.speeds = speeds;
    this.crossNic = crossNic;
    this.trySame = draft.sameChannels;
    PathTable paths = space.routes.paths();
    PathType farGpu = space.gpus.size() > 1 ? paths.farthest(NodeType.GPU) : PathType.SYS;
    PathType farNet = space.inter ? paths.farthest(NodeType.NET) : PathType.SYS;
    this.minIntra = draft.typeIntra;
    this.maxIntra = space.inter ? farNet : farGpu;
    this.minInter = draft.typeInter;
    // Before Hopper, balanced trees sometimes have to come back over the CPU.
    this.maxInter = space.machine.minSm() < HOPPER ? PathType.SYS : farNet;
  }

  /**
   * Loosens the draft; false if there is nothing more to give up.
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
    boolean amd = space.machine.cpu().isX86(Facts.Vendor.AMD) && draft.typeIntra == PathType.SYS;
    if (draft.sameChannels && !amd) {
      draft.sameChannels = false;
      return true;
    }
    draft.sameChannels = trySame;
    return false;
  }

  private boolean simplerTree() {
    if (space.machine.minSm() >= HOPPER && draft.pattern == Pattern.BALANCED_TREE) {
      draft.pattern = Pattern.TREE;
      return true;
    }
    draft.pattern = best.pattern;
    return false;
  }

  private boolean fartherGpus() {
    PathType limit = space.inter ? draft.typeInter : maxIntra;
    boolean helps = best.nChannels == 0 || before(draft.typeIntra, best.typeIntra);
    if (before(draft.typeIntra, limit) && helps) {
      draft.typeIntra = draft.typeIntra.next();
      if (draft.typeIntra != PathType.DIS) {
        return true;
      }
    }
    draft.typeIntra = minIntra;
    return false;
  }

  private boolean fartherNets() {
    boolean helps =
        best.nChannels == 0
            || before(draft.typeInter, best.typeInter)
            || before(draft.typeInter, PathType.PXN);
    if (space.inter && before(draft.typeInter, maxInter) && helps) {
      draft.typeInter = draft.typeInter.next();
      if (draft.typeInter != PathType.DIS) {
        return true;
      }
    }
    draft.typeInter = minInter;
    return false;
  }

  private boolean crossNics() {
    boolean useful = best.pattern == Pattern.RING || best.pattern == Pattern.BALANCED_TREE;
    if (crossNic == 2 && draft.crossNic == 0 && useful) {
      draft.crossNic = 2;
      return true;
    }
    draft.crossNic = crossNic == 1 ? 1 : 0;
    return false;
  }

  private boolean lowerSpeed() {
    if (speeds.hasSlower() && (best.nChannels == 0 || speeds.peekSlower() / best.bwInter > .49)) {
      draft.bwIntra = draft.bwInter = speeds.slower();
      return true;
    }
    return false;
  }

  private static boolean before(PathType a, PathType b) {
    return a.ordinal() < b.ordinal();
  }
}
