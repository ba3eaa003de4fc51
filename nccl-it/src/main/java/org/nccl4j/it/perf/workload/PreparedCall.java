package org.nccl4j.it.perf.workload;

/** One operation of a workload, ready to be launched again and again. */
@FunctionalInterface
public interface PreparedCall {
  /** Launches it once more into its stream; allocates nothing. */
  void launch();
}
