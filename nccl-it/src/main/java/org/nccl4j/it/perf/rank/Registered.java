package org.nccl4j.it.perf.rank;

/** Whether and how a rank's buffers are registered; the numbers of perf's option -R. */
public enum Registered {
  /** They are not. */
  NOT,
  /** By each rank for itself. */
  LOCALLY,
  /** As windows of all ranks. */
  WINDOWS
}
