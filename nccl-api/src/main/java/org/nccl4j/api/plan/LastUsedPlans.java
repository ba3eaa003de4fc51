package org.nccl4j.api.plan;

import java.util.LinkedHashMap;
import java.util.Map;
import org.nccl4j.device.kernel.KernelPlan;

/** The plans that were used last. A plan beyond the most that are kept is discarded. */
public final class LastUsedPlans<K> extends LinkedHashMap<K, KernelPlan> {
  private static final long serialVersionUID = 1L;
  private final int most;

  /**
   * No plans.
   *
   * @param most that are kept
   */
  public LastUsedPlans(int most) {
    super(16, 0.75f, /* accessOrder= */ true);
    this.most = most;
  }

  @Override
  protected boolean removeEldestEntry(Map.Entry<K, KernelPlan> eldest) {
    if (size() > most) {
      eldest.getValue().discard();
      return true;
    }
    return false;
  }
}
