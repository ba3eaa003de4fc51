package org.nccl4j.topo.system;

import java.lang.System.Logger.Level;

/**
 * Writes this module's warnings to {@link System.Logger} under the name "org.nccl4j.topo", which is
 * looked up for the first one: the JDK's first logger takes 40 ms. Any thread.
 */
public final class TopologyLog {
  private static volatile boolean silent;

  private TopologyLog() {}

  /** Has this process write no warnings. */
  public static void silence() {
    silent = true;
  }

  /** Writes a warning, in the format of {@link java.text.MessageFormat}. */
  public static void warn(String format, Object... parameters) {
    if (!silent) {
      System.getLogger("org.nccl4j.topo").log(Level.WARNING, format, parameters);
    }
  }
}
