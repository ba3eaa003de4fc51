package org.nccl4j.device.shm;

import java.lang.System.Logger.Level;
import java.util.concurrent.atomic.AtomicBoolean;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.os.AllowedCores;
import org.nccl4j.device.os.CoreLayout;

/**
 * Asks the kernel for pages on the NUMA node of the rank that waits for what others write there:
 * else they lie on the node of whoever touches them first, which is the writer. Any thread.
 */
final class NumaPlacement {
  private static final System.Logger LOG = DebugLog.of("ALLOC");
  private static final NumaPlacement OF_KERNEL = new NumaPlacement(Libc::preferNode);

  /** Prefers a node for memory, and says whether that could be done. */
  interface Call {
    boolean prefer(long address, long bytes, int node);
  }

  private final Call call;

  /** True once the log has the refusal. */
  private final AtomicBoolean told = new AtomicBoolean();

  NumaPlacement(Call call) {
    this.call = call;
  }

  /**
   * Prefers the calling thread's node for memory that nobody has touched. Does nothing on machines
   * with one node, and for threads that may run on several.
   *
   * @param address of a page
   */
  static void here(long address, long bytes) {
    if (Libc.isAvailable()) {
      OF_KERNEL.place(CoreLayout.here(), address, bytes);
    }
  }

  void place(CoreLayout layout, long address, long bytes) {
    int node = layout.hasNodes() ? AllowedCores.ofThisThread(layout).domain().node() : -1;
    if (node >= 0 && !call.prefer(address, bytes, node)) {
      LOG.log(
          told.getAndSet(true) ? Level.DEBUG : Level.INFO,
          "memory of ranks on NUMA node {0} lies where it is touched first, since the kernel"
              + " refuses mbind (in a container allow it: docker run --cap-add SYS_NICE)",
          node);
    }
  }
}
