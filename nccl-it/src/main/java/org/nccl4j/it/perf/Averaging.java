package org.nccl4j.it.perf;

import java.util.List;

/** Combines the ranks' times into one; the order is that of nccl-tests' option -a. */
enum Averaging {
  /** Rank 0's. */
  RANK0,
  /** The mean. */
  AVG,
  /** The shortest. */
  MIN,
  /** The longest. */
  MAX;

  /** One time for those of all ranks. */
  double of(List<Long> nanos) {
    return switch (this) {
      case RANK0 -> nanos.get(0);
      case AVG -> nanos.stream().mapToLong(Long::longValue).average().orElse(0);
      case MIN -> nanos.stream().mapToLong(Long::longValue).min().orElse(0);
      case MAX -> nanos.stream().mapToLong(Long::longValue).max().orElse(0);
    };
  }
}
