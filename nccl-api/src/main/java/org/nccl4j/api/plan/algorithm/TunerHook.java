package org.nccl4j.api.plan.algorithm;

import java.util.List;
import org.nccl4j.api.plan.cost.AlgorithmChoice;
import org.nccl4j.device.DataType;
import org.nccl4j.operation.Operation;

/** Changes predicted times before the cheapest choice is made; the same on all ranks. */
@FunctionalInterface
public interface TunerHook {
  /** Leaves all as it is. */
  TunerHook NONE = (operation, bytes, type, choices) -> choices;

  /** The choices with their new times, in the same order; infinite for what is forbidden. */
  List<AlgorithmChoice> edit(
      Operation operation, long bytes, DataType type, List<AlgorithmChoice> choices);
}
