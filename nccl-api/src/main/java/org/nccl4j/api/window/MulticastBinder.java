package org.nccl4j.api.window;

import java.util.List;
import org.nccl4j.api.multicast.Multicast;
import org.nccl4j.api.multicast.MulticastProvider.Exchange;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.symmetric.ShareableMemory;

/**
 * Makes windows' memory reachable by one access, if the communicator supports it. Used by one
 * thread at a time for registrations, and by another for memory that is registered.
 */
final class MulticastBinder {
  private static final System.Logger LOG = DebugLog.of("NVLS");

  private final WindowSetup setup;
  private final boolean possible;
  private volatile boolean warned;

  MulticastBinder(WindowSetup setup, LsaTeam team) {
    this.setup = setup;
    this.possible = setup.multicast() != null && team.size() == setup.peers().size();
  }

  /** True if the memory of windows is covered, now or later, as far as is known. */
  boolean isPossible() {
    return possible && !warned;
  }

  /** True if this rank knows that all ranks can cover memory. */
  boolean isMade() {
    return possible && setup.multicast().isMade();
  }

  /**
   * Takes part in covering allocations, with all ranks. Where it cannot be done rank 0 warns of the
   * first, and they are used without.
   *
   * @param own this rank's
   * @param views all ranks', mapped here
   * @param undo what to do if the ranks cannot talk to each other
   */
  Multicast.Cover of(ShareableMemory own, List<DeviceMemory> views, Runnable undo) {
    try {
      return told(setup.multicast().cover(own, views));
    } catch (RuntimeException | Error e) {
      undo.run();
      throw e;
    }
  }

  /** The same, of memory that has windows already. */
  Multicast.Cover of(ShareableMemory own, List<DeviceMemory> views, Exchange exchange) {
    return told(setup.multicast().cover(own, views, exchange));
  }

  /**
   * Tells, on rank 0, of a window that no rank covers, since it was registered while NVLS was being
   * made.
   */
  void tellLate(RegisteredWindow window) {
    if (isPossible() && setup.rank() == 0) {
      LOG.log(
          setup.level(),
          "rank 0 of communicator {0} has window {1} without NVLS, like all ranks, because it was"
              + " registered while NVLS was being made; register windows before the first large"
              + " operation, or deregister all windows of this memory and register them again",
          setup.name(),
          Long.toString(window.number()));
    }
  }

  private Multicast.Cover told(Multicast.Cover cover) {
    if (cover.memory().isEmpty()) {
      boolean warn = setup.rank() == 0 && !warned;
      warned = true;
      LOG.log(
          warn ? System.Logger.Level.WARNING : System.Logger.Level.DEBUG,
          "windows of communicator {0} do not use NVLS: {1}",
          setup.name(),
          cover.reason());
    }
    return cover;
  }
}
