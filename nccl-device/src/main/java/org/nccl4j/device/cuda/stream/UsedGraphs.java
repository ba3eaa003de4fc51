package org.nccl4j.device.cuda.stream;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.Consumer;
import org.nccl4j.device.kernel.CapturedLaunches;

/** The graphs of this library that a communicator's launches were captured into. Any thread. */
public final class UsedGraphs {
  private final StreamUser user;
  private final Queue<CapturedLaunches> graphs = new ConcurrentLinkedQueue<>();

  /** The graphs of a communicator that has launched nothing yet. */
  public UsedGraphs(StreamUser user) {
    this.user = user;
  }

  StreamUser user() {
    return user;
  }

  /** Another capture has launches of the communicator. */
  CapturedLaunches begin() {
    CapturedLaunches captured = new CapturedLaunches();
    graphs.add(captured);
    return captured;
  }

  /** Visits all; those that are over for the last time. One visitor at a time. */
  public void visit(Consumer<CapturedLaunches> visitor) {
    for (CapturedLaunches each : graphs) {
      boolean isLast = each.isOver();
      visitor.accept(each);
      if (isLast) {
        graphs.remove(each);
      }
    }
  }
}
