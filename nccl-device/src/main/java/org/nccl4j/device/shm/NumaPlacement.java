package org.nccl4j.device.shm;

import java.lang.System.Logger.Level;
import java.util.concurrent.atomic.AtomicBoolean;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.os.AllowedCores;
import org.nccl4j.device.os.CoreLayout;

/**
 * Asks the kernel for pages on the NUMA node of the rank that waits for what others write there:
 * else, unless the process has a memory policy, they lie on the node of whoever touches them first,
 * which is the writer. Any thread.
 */
final class NumaPlacement {
  private static final System.Logger LOG = DebugLog.of("ALLOC");

  private static final NumaPlacement OF_KERNEL =
      new NumaPlacement(
          new Kernel() {
            @Override
            public int policy() {
              return Libc.memoryPolicy();
            }

            @Override
            public int prefer(long address, long bytes, int node) {
              return Libc.preferNode(address, bytes, node);
            }
          });

  /** Modes of a thread whose pages lie where they are touched first. */
  private static final int MPOL_DEFAULT = 0;

  private static final int MPOL_LOCAL = 4;

  /** The kernel's calls. */
  interface Kernel {
    /** The mode of the calling thread's memory policy, or minus the error number. */
    int policy();

    /** Prefers a node for memory, over the thread's policy. 0, or the error number. */
    int prefer(long address, long bytes, int node);
  }

  private final Kernel kernel;

  /** True once the log has the reason why memory lies elsewhere. */
  private final AtomicBoolean told = new AtomicBoolean();

  NumaPlacement(Kernel kernel) {
    this.kernel = kernel;
  }

  /**
   * Prefers the calling thread's node for memory that nobody has touched. Does nothing on machines
   * with one node, for threads that may run on several, and for those with a memory policy of their
   * own, which users set (numactl).
   *
   * @param address of a page
   */
  static void here(long address, long bytes) {
    if (Libc.isAvailable()) {
      here(CoreLayout.here(), address, bytes);
    }
  }

  /** The same on a machine of some layout. */
  static void here(CoreLayout layout, long address, long bytes) {
    OF_KERNEL.place(layout, address, bytes);
  }

  void place(CoreLayout layout, long address, long bytes) {
    int node = layout.hasNodes() ? AllowedCores.ofThisThread(layout).domain().node() : -1;
    if (node < 0) {
      return;
    }
    int policy = kernel.policy();
    String obstacle;
    if (policy > 0 && policy != MPOL_LOCAL) {
      obstacle = "the memory policy of the process puts it (numactl, set_mempolicy)";
    } else {
      int error = policy < MPOL_DEFAULT ? -policy : kernel.prefer(address, bytes, node);
      obstacle = error == 0 ? "" : "it is touched first, since " + reason(error, node);
    }
    if (!obstacle.isEmpty()) {
      LOG.log(
          told.getAndSet(true) ? Level.DEBUG : Level.INFO,
          "memory of ranks on NUMA node {0} lies where {1}",
          node,
          obstacle);
    }
  }

  private static String reason(int error, int node) {
    return switch (error) {
      case Libc.EPERM ->
          "the kernel refuses mbind (in a container allow it: docker run --cap-add SYS_NICE)";
      case Libc.EINVAL -> "node %d has no memory that this process may use".formatted(node);
      case Libc.ENOSYS -> "nccl4j does not know this system's call for it";
      default -> "mbind failed: " + Libc.describe(error);
    };
  }
}
