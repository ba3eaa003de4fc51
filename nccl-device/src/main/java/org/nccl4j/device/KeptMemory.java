package org.nccl4j.device;

import java.lang.System.Logger.Level;
import java.util.ArrayList;
import java.util.List;

/**
 * Memory that is never freed, since a kernel or thread may still use it when its time to be freed
 * has come: that would end the process, or change memory of other code. The log says so. Any
 * thread.
 */
public final class KeptMemory {
  private static final System.Logger LOG = DebugLog.of("ALLOC");

  /** Cleaners free what is not reachable. Guarded by itself. */
  private static final List<Object> OWNERS = new ArrayList<>();

  private KeptMemory() {}

  /**
   * Keeps memory for as long as the process lives.
   *
   * @param owner keeps all of it reachable
   * @param whose for people
   * @param bytes how much it is
   * @param why the kernel or thread that may still use it, for people
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
