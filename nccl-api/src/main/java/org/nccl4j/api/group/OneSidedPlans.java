package org.nccl4j.api.group;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelPlan;

/**
 * The plans of the puts, signals and waits that were called last, by hash, of which two may have
 * the same. A replaced plan is discarded. Of the thread that is in the launcher.
 */
final class OneSidedPlans {
  private static final int PLACE_BITS = 8;

  private final KernelCommunicator kernels;
  private OneSidedCall.Kind[] kinds; // null before the first
  private KernelPlan[] plans;

  OneSidedPlans(KernelCommunicator kernels) {
    this.kernels = kernels;
  }

  /** Returns the plan of a call, which is prepared if it is not known. */
  @HotPath
  KernelPlan of(OneSidedCall.Kind kind) {
    int place = CallShape.place(kind.hash(), PLACE_BITS);
    if (kinds != null) {
      if (kind.isSame(kinds[place])) {
        return plans[place];
      }
      if (kind.isSame(kinds[place ^ 1])) {
        return plans[place ^ 1];
      }
    }
    return prepare(kind, place);
  }

  /** Keeps what was at the place at its neighbour, if there was something. */
  private KernelPlan prepare(OneSidedCall.Kind kind, int place) {
    if (kinds == null) {
      kinds = new OneSidedCall.Kind[1 << PLACE_BITS];
      plans = new KernelPlan[1 << PLACE_BITS];
    }
    KernelPlan made = kernels.prepare(kind.work());
    if (plans[place] != null) {
      if (plans[place ^ 1] != null) {
        plans[place ^ 1].discard();
      }
      kinds[place ^ 1] = kinds[place];
      plans[place ^ 1] = plans[place];
    }
    kinds[place] = kind.copy();
    plans[place] = made;
    return made;
  }
}
