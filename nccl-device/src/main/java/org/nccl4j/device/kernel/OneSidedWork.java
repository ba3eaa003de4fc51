package org.nccl4j.device.kernel;

import java.util.List;
import org.nccl4j.device.symmetric.WindowView;

/**
 * A one-sided operation: only one rank calls it. The data of a put are in its launch's send buffer.
 */
public sealed interface OneSidedWork {
  /**
   * Writes into a rank's window, if there are bytes, and then raises its signal from this rank by
   * one.
   *
   * @param place the rank, by its place in the team
   * @param window where they go to; null where there are none
   * @param offset where they begin in the window
   * @param bytes how many
   */
  record Put(int place, WindowView window, long offset, long bytes) implements OneSidedWork {}

  /**
   * Same as {@link Put}, to a rank outside the team.
   *
   * @param rank the rank
   * @param window the number of the window; 0 where there are no bytes
   */
  record RemotePut(int rank, long window, long offset, long bytes) implements OneSidedWork {}

  /**
   * Waits until other ranks have signalled.
   *
   * @param awaited of which ranks of the team, and how often since the last wait
   * @param remote of which ranks outside it, likewise
   */
  record Wait(List<Awaited> awaited, List<RemoteAwaited> remote) implements OneSidedWork {
    /** A wait for ranks of the team. */
    public Wait(List<Awaited> awaited) {
      this(awaited, List.of());
    }
  }

  /**
   * Signals of one rank.
   *
   * @param place the rank, by its place in the team
   * @param signals how many more than were waited for before
   */
  record Awaited(int place, int signals) {}

  /**
   * Signals of one rank outside the team.
   *
   * @param rank the rank
   * @param signals how many more than were waited for before
   */
  record RemoteAwaited(int rank, int signals) {}
}
