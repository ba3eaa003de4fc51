package org.nccl4j.transport.net.socket.link;

import java.io.IOException;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import org.nccl4j.api.wire.DataChannel;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.support.CloseAll;
import org.nccl4j.transport.net.socket.silence.LaneSilence;

/**
 * The sockets of a connection beside its first, with the threads that serve them. Both ends cut a
 * message into the same parts and give them to the same lanes: equal parts in turn, or parts by the
 * shares of lanes over interfaces of different speeds.
 */
final class DataSockets {
  static final int LEAST_PART = 64 << 10;

  /**
   * Messages up to here go over the first socket, behind their header: to wake a thread would take
   * longer than to send them.
   */
  private static final int INLINE = 32 << 10;

  private final DataSocket[] lanes;

  /** By lane: the thread that serves it. */
  private final DataSocketThread[] threads;

  /** Threads that serve this connection alone. */
  private final DataSocketThread[] own;

  private int next;

  /** Null where all lanes have equal parts. */
  private LaneShares shares;

  /**
   * Lanes over a connection's sockets but the first.
   *
   * @param count how many, and of which threads
   * @param shared the communicator's threads
   * @param silence time after which a silent lane is replaced; zero for never
   */
  DataSockets(
      DataChannel[] sockets,
      boolean sends,
      DataSocketCount count,
      SharedSocketThreads shared,
      String name,
      Duration silence) {
    lanes = new DataSocket[sockets.length - 1];
    threads = new DataSocketThread[lanes.length];
    own = new DataSocketThread[lanes.length == 0 || count.shared() ? 0 : count.threads()];
    boolean all = false;
    try {
      for (int t = 0; t < own.length; t++) {
        own[t] = new DataSocketThread(name + "-" + t);
      }
      for (int l = 0; l < lanes.length; l++) {
        lanes[l] = new DataSocket(l + 1, sockets[l + 1], sends, silence);
        threads[l] = count.shared() ? shared.take() : own[l % own.length];
        threads[l].add(lanes[l]);
      }
      all = true;
    } finally {
      if (!all) {
        close();
      }
    }
  }

  /**
   * Gives lanes parts by their shares, from the first message on.
   *
   * @param relative shares by lane; empty for equal parts
   */
  void shareBy(int[] relative) {
    shares = relative.length == 0 ? null : new LaneShares(relative);
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
    if (shares != null) {
      postByShares(memory, offset, bytes, targets);
      return;
    }
    int part = Math.max(LEAST_PART, (bytes + lanes.length - 1) / lanes.length);
    for (int at = 0; at < bytes; at += part) {
      targets[next] = lanes[next].post(memory, offset + at, Math.min(part, bytes - at));
      threads[next].wake();
      next = (next + 1) % lanes.length;
    }
  }

  private void postByShares(SocketMemory memory, long offset, int bytes, long[] targets) {
    int[] parts = shares.cut(bytes);
    long at = offset;
    for (int lane = 0; lane < lanes.length; lane++) {
      if (parts[lane] > 0) {
        targets[lane] = lanes[lane].post(memory, at, parts[lane]);
        threads[lane].wake();
        at += parts[lane];
      }
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

  /**
   * Throws the error that stopped a lane for good, if there is one.
   *
   * @throws InternalErrorException with that error
   */
  @HotPath
  void check() {
    for (DataSocket lane : lanes) {
      check(lane.failure());
    }
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
      boolean here = lanes[l].look(link, spare, unacknowledged, bound);
      if (!here && !lanes[l].isIdle()) {
        threads[l].wake(); // another socket may have taken over
      }
      broken |= here;
    }
    return broken;
  }

  /** Returns a lane of a receiver whose stop is to be reported now; -1 if there is none. */
  int stopped(long now) {
    for (int l = 0; l < lanes.length; l++) {
      if (lanes[l].owesReport(now)) {
        return l;
      }
    }
    return -1;
  }

  /** Returns the first word of a lane's report: lane (8) and the low bits of the part. */
  int reportTag(int lane) {
    return lane << LaneSilence.PART_BITS | (int) (lanes[lane].place() >>> Integer.SIZE);
  }

  /** Returns the second word of a lane's report: the bytes of the part. */
  int reportNote(int lane) {
    return (int) lanes[lane].place();
  }

  /** Takes a receiver's report of a lane's stop. */
  void takeReport(int tag, int note, long now) throws DamagedMessageException {
    int lane = tag >>> LaneSilence.PART_BITS;
    if (lane >= lanes.length) {
      throw new DamagedMessageException(
          "socket %d is reported, which is not there".formatted(lane));
    }
    lanes[lane].takeReport(LaneSilence.place(tag, note), now);
  }

  /** Replaces no socket any more. */
  void forget() {
    for (DataSocket lane : lanes) {
      lane.forget();
    }
  }

  void close() {
    CloseAll all = new CloseAll();
    // Some are null if no more threads could be started.
    for (DataSocketThread thread : own) {
      if (thread != null) {
        all.take(thread::close);
      }
    }
    if (own.length == 0) {
      List<DataSocket> mine = Arrays.asList(lanes);
      for (DataSocketThread thread : new HashSet<>(Arrays.asList(threads))) {
        if (thread != null) {
          all.take(() -> thread.remove(mine));
        }
      }
    }
    all.end();
  }
}
