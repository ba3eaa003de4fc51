package org.nccl4j.device.cuda.stream;

import java.util.Collections;
import java.util.Set;
import java.util.WeakHashMap;
import org.nccl4j.device.NcclException;

/**
 * The streams that a communicator has launched into. Each knows the communicator until its close;
 * the communicator keeps none of them alive. Any thread.
 */
public final class UsedStreams {
  private final StreamUser user;
  private final Set<GpuStream> streams = Collections.newSetFromMap(new WeakHashMap<>());
  private boolean left;

  /** The streams of a communicator that has launched nothing yet. */
  public UsedStreams(StreamUser user) {
    this.user = user;
  }

  /** The communicator launches into a stream. Allocates for a new one. */
  public synchronized void add(GpuStream stream) {
    if (!left && stream.addUser(user)) {
      streams.add(stream);
    }
  }

  /**
   * The communicator is closed.
   *
   * @param failure its failure, which each stream's next wait reports; null if it has none
   */
  public synchronized void leave(NcclException failure) {
    left = true;
    streams.forEach(stream -> stream.removeUser(user, failure));
    streams.clear();
  }
}
