package org.nccl4j.it.netns;

import org.nccl4j.it.netns.LinkDownPlan.Event;

/** Links of hosts that fail as a plan says. Used by one thread. */
public interface FaultyLinks {
  /**
   * Begins a fault once its interface has sent as much as the event says, and repairs it if that is
   * soon. Does not wait.
   */
  void strike(Event event, int rails) throws Exception;

  /** Waits for the end of {@link #strike}. */
  void await() throws Exception;

  /** Repairs what was struck. */
  void repair(Event event, int rails) throws Exception;
}
