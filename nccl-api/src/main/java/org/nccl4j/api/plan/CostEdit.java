package org.nccl4j.api.plan;

import java.util.List;
import org.nccl4j.device.DataType;

/** Changes predicted times before the cheapest way is chosen; on all ranks alike. */
@FunctionalInterface
public interface CostEdit {
  /** Leaves all as it is. */
  CostEdit NONE = (collective, bytes, type, ways) -> ways;

  /**
   * A way.
   *
   * @param index of it in the list
   */
  record Way(int index, String algorithm, String protocol, double microseconds) {}

  /** The ways with their new times, in the same order; infinite for what is forbidden. */
  List<Way> edit(String collective, long bytes, DataType type, List<Way> ways);
}
