package org.nccl4j.device.cuda.plan;

/**
 * Works of several plans of a communicator that one kernel runs side by side. The same object for
 * plans whose kernels have the same form. All ranks add the same works, and a rank may run them by
 * several kernels. Reused; owned by the thread that launches.
 */
public interface WorkGroup {
  /**
   * Adds the work of a plan, which may be discarded afterwards.
   *
   * @param plan one whose group this is
   * @return false if it cannot be with those that were added, and was not: the same on all ranks
   */
  boolean add(CudaPlan plan);

  /**
   * The plan that runs some of the works, to be launched at once. The works before them have been
   * launched.
   *
   * @param from the first
   * @param to behind the last
   * @param sends addresses of all works' send buffers
   * @param recvs addresses of all works' receive buffers
   */
  CudaPlan plan(int from, int to, long[] sends, long[] recvs);

  /** Forgets the works. */
  void clear();
}
