package org.nccl4j.transport.net.ib.verbs;

import java.util.OptionalLong;
import org.nccl4j.device.shm.ProcessLimits;

/**
 * The limit on memory that this process may lock, which all memory that an adapter reads or writes
 * counts against (ulimit -l).
 */
public final class LockedMemory {
  /** The error number for it. */
  static final int ENOMEM = 12;

  private LockedMemory() {}

  /** The limit in bytes; empty if there is none or it is not known. */
  public static OptionalLong limit() {
    return ProcessLimits.soft(ProcessLimits.LOCKED_MEMORY);
  }

  /** Returns the remedy for memory that could not be locked. */
  static String remedy() {
    OptionalLong limit = limit();
    String raise =
        "ulimit -l unlimited (docker run --ulimit memlock=-1, LimitMEMLOCK=infinity in a systemd"
            + " unit, or memlock in /etc/security/limits.conf)";
    return limit.isEmpty()
        ? "free memory; the limit on locked memory (ulimit -l) is not in the way"
        : "raise the limit on locked memory, now %d KiB (ulimit -l): %s"
            .formatted(limit.getAsLong() >> 10, raise);
  }
}
