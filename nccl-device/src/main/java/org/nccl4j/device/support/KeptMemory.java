package org.nccl4j.device.support;

import java.lang.System.Logger.Level;
import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.DebugLog;

/**
 * Keeps memory that must never be freed, since a kernel or thread may still use it: freeing it
 * could crash the process or corrupt other memory. It is logged. Any thread.
 */
public final class KeptMemory {
  private static final System.Logger LOG = DebugLog.of("ALLOC");

  /** Keeps owners reachable, so that cleaners do not free their memory. Guarded by itself. */
  private static final List<Object> OWNERS = new ArrayList<>();

  private KeptMemory() {}

  /**
   * Keeps memory for as long as the process lives.
   *
   * @param owner keeps all of it reachable
   * @param whose name of the memory, for the log
   * @param bytes its size
   * @param why the kernel or thread that may still use it, for the log
   */
  public static void keep(Object owner, String whose, long bytes, String why) {
    synchronized (OWNERS) {
      OWNERS.add(owner);
    }
    LOG.log(
        Level.WARNING,
        "%d bytes of %s are never freed, since %s; synchronize all streams before closing"
            .formatted(bytes, whose, why));
  }

  /** True if an owner's memory is kept. */
  public static boolean has(Object owner) {
    synchronized (OWNERS) {
      return OWNERS.stream().anyMatch(each -> each == owner);
    }
  }
}
