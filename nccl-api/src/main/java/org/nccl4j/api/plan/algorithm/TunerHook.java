package org.nccl4j.api.plan.algorithm;

import java.util.List;
import org.nccl4j.device.DataType;

/** Changes predicted times before the cheapest choice is made; the same on all ranks. */
@FunctionalInterface
public interface TunerHook {
  /** Leaves all as it is. */
  TunerHook NONE = (collective, bytes, type, choices) -> choices;

  /** The choices with their new times, in the same order; infinite for what is forbidden. */
  List<AlgorithmChoice> edit(
      String collective, long bytes, DataType type, List<AlgorithmChoice> choices);
}
