package org.nccl4j.transport.net.socket;

import java.io.IOException;
import java.time.Duration;
import java.util.Arrays;
import org.nccl4j.api.wire.DataChannel;
import org.nccl4j.device.CloseAll;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InternalErrorException;

/**
 * The sockets of a connection beside its first, with the threads that serve them. Both ends cut a
 * message into the same parts and give them to the same lanes.
 */
final class DataSockets {
  private static final int LEAST_PART = 64 << 10;

  /** Messages up to here go over the first socket, behind their header. */
  private static final int INLINE = 128;

  private final DataSocket[] lanes;
  private final DataSocketThread[] threads;
  private int next;

  /** Lanes over a connection's sockets but the first. */
  DataSockets(DataChannel[] sockets, boolean sends, int nThreads, String name) {
    lanes = new DataSocket[sockets.length - 1];
    for (int l = 0; l < lanes.length; l++) {
      lanes[l] = new DataSocket(sockets[l + 1], sends);
    }
    threads = new DataSocketThread[lanes.length == 0 ? 0 : nThreads];
    for (int t = 0; t < threads.length; t++) {
      threads[t] = new DataSocketThread(lanes, t, threads.length, name);
    }
  }

  int count() {
    return lanes.length;
  }

  /** True if a message of a length goes over lanes. */
  @HotPath
  boolean take(int bytes) {
    return lanes.length > 0 && bytes > INLINE;
  }

  /** True if a lane has something to move. */
  boolean areBusy() {
    for (DataSocket lane : lanes) {
      if (lane.isBusy()) {
        return true;
      }
    }
    return false;
  }

  /** True if any message can be posted now. */
  @HotPath
  boolean haveRoom() {
    for (DataSocket lane : lanes) {
      if (!lane.hasRoom()) {
        return false;
      }
    }
    return true;
  }

  /**
   * Posts a message's bytes.
   *
   * @param targets where to put what each lane will have moved by then; 0 for lanes not used
   */
  @HotPath
  void post(SocketMemory memory, long offset, int bytes, long[] targets) {
    Arrays.fill(targets, 0);
    int part = Math.max(LEAST_PART, (bytes + lanes.length - 1) / lanes.length);
    for (int at = 0; at < bytes; at += part) {
      targets[next] = lanes[next].post(memory, offset + at, Math.min(part, bytes - at));
      threads[next % threads.length].wake();
      next = (next + 1) % lanes.length;
    }
  }

  /** True if every lane has reached its target; a broken one will once another socket goes on. */
  @HotPath
  boolean reached(long[] targets) {
    for (int l = 0; l < lanes.length; l++) {
      if (lanes[l].done() < targets[l]) {
        check(lanes[l].failure());
        return false;
      }
    }
    return true;
  }

  private static void check(Throwable failure) {
    if (failure != null && !(failure instanceof IOException)) {
      throw new InternalErrorException(
          "a data socket failed unexpectedly (" + failure + ")",
          "report this with the stack trace",
          failure);
    }
  }

  /**
   * Looks for broken sockets, and goes on with their replacement; on the watch's thread.
   *
   * @param unacknowledged whether the receiver may lack some of what was sent
   * @return whether one is broken
   */
  boolean look(DataSocket.Owner link, SpareSockets spare, boolean unacknowledged, Duration bound) {
    boolean broken = false;
    for (int l = 0; l < lanes.length; l++) {
      boolean here = lanes[l].look(link, spare, l + 1, unacknowledged, bound);
      if (!here && !lanes[l].isIdle()) {
        threads[l % threads.length].wake(); // another socket may have taken over
      }
      broken |= here;
    }
    return broken;
  }

  /** Replaces no socket any more. */
  void forget() {
    for (DataSocket lane : lanes) {
      lane.forget();
    }
  }

  void close() {
    CloseAll all = new CloseAll();
    for (DataSocketThread thread : threads) {
      all.take(thread::close);
    }
    all.end();
  }
}
