package org.nccl4j.it.perf.rank.bind;

/** Functions of libc. */
public interface Scheduling {
  /**
   * Says on which cores a thread may run.
   *
   * @param thread 0 for the calling one
   * @param bytes length of the mask
   * @param mask address of a bit for each core
   * @return 0 for success
   */
  int sched_setaffinity(int thread, long bytes, long mask);
}
