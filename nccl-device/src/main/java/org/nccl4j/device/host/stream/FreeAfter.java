package org.nccl4j.device.host.stream;

import java.util.ArrayList;
import java.util.List;

/**
 * Something to free after what was launched before. Anything that a launch uses counts, also memory
 * of plans and communicators, so each stream's position is waited for, not launches with one
 * memory.
 */
final class FreeAfter {
  private record Position(HostStream stream, long ended) {}

  private final Runnable release;
  private final List<Position> positions;

  private FreeAfter(Runnable release, List<Position> positions) {
    this.release = release;
    this.positions = positions;
  }

  /** After what is in some streams now. */
  static FreeAfter of(Runnable release, List<HostStream> streams) {
    List<Position> positions = new ArrayList<>();
    for (HostStream stream : streams) {
      long launched = stream.launchedByAll();
      if (stream.ended() < launched) {
        positions.add(new Position(stream, launched));
      }
    }
    return new FreeAfter(release, positions);
  }

  /** True if all that was launched before has ended. */
  boolean isDue() {
    for (Position position : positions) {
      if (position.stream.ended() < position.ended) {
        return false;
      }
    }
    return true;
  }

  void free() {
    release.run();
  }
}
