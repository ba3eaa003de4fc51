package org.nccl4j.transport.net.socket.link;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.time.Duration;
import org.nccl4j.api.wire.DataChannel;
import org.nccl4j.api.wire.Sockets;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.support.Patience;
import org.nccl4j.transport.net.socket.silence.LaneSilence;
import org.nccl4j.transport.net.socket.silence.MovedException;

/**
 * A socket that carries parts of large messages one way, in the order in which they are posted. One
 * thread posts; the lane thread moves.
 */
final class DataSocket {
  /** The link of a lane. */
  interface Owner {
    /** Ends with an error. */
    void fail(IOException cause, String attempts);

    /** Another socket has taken over from a lane's. */
    void replaced(int index, DataChannel by, String why, long again, long nanos);
  }

  private static final int PARTS = 256;

  /** Index among the connection's sockets. */
  private final int index;

  private final boolean sends;
  private volatile DataChannel socket;
  private final SocketMemory[] memories = new SocketMemory[PARTS];
  private final long[] offsets = new long[PARTS];
  private final int[] lengths = new int[PARTS];
  private int moved;

  /** Parts posted so far. Written by the thread that posts; publishes the arrays. */
  private volatile long posted;

  /** Parts moved so far. Written by the lane thread; publishes the bytes. */
  private volatile long done;

  private volatile Throwable failure;

  // Of the watch:
  private final ByteBuffer nothing = ByteBuffer.allocate(1);
  private Resumption resumption;
  private IOException cause;
  private long brokenSince;
  private long doneBefore = -1;
  private int movedBefore;
  private final Duration bound;
  private final LaneSilence silence;

  DataSocket(int index, DataChannel socket, boolean sends, Duration silence) {
    this.bound = silence;
    this.silence = new LaneSilence(silence.toNanos());
    this.index = index;
    this.socket = socket;
    this.sends = sends;
  }

  @HotPath
  boolean hasRoom() {
    return posted - done < PARTS;
  }

  /** Posts a part and returns what {@link #done()} will have reached once it has been moved. */
  @HotPath
  long post(SocketMemory memory, long offset, int bytes) {
    int slot = (int) posted & (PARTS - 1);
    memories[slot] = memory;
    offsets[slot] = offset;
    lengths[slot] = bytes;
    posted = posted + 1;
    return posted;
  }

  /** Parts moved so far. */
  @HotPath
  long done() {
    return done;
  }

  /** Returns the error that stopped the lane, or null. */
  Throwable failure() {
    return failure;
  }

  /**
   * Looks for a broken socket, and goes on with its replacement; on the watch's thread, which has
   * the link's turn.
   *
   * @param unacknowledged whether the receiver may lack some of what was sent
   * @return whether it is broken
   */
  boolean look(Owner link, SpareSockets spare, boolean unacknowledged, Duration bound) {
    if (resumption == null) {
      IOException found = findBroken(spare, unacknowledged);
      if (found == null) {
        return false;
      }
      Sockets.close(socket);
      if (bound.isZero()) {
        link.fail(found, "");
        return false;
      }
      cause = found;
      if (done != doneBefore || moved != movedBefore || found instanceof MovedException) {
        brokenSince = System.nanoTime();
      }
      resumption = new Resumption(spare, index, bound, System::nanoTime);
    }
    return !replace(link, bound);
  }

  private IOException findBroken(SpareSockets spare, boolean unacknowledged) {
    if (failure instanceof IOException broken) {
      return broken;
    }
    if (failure != null) {
      return null;
    }
    if (spare.isOffered(index)) {
      return new IOException("the other side has dialled again");
    }
    if (sends && !bound.isZero()) {
      IOException reason =
          spare.reasonToMove(
              index,
              silence.isDoubtful(System.nanoTime()),
              "nothing of it has arrived for ",
              bound);
      if (reason != null) {
        return reason;
      }
    }
    try {
      // The receiver of a lane's bytes sends none.
      return sends && unacknowledged && socket.read(nothing.clear()) < 0
          ? new ClosedChannelException()
          : null;
    } catch (IOException e) {
      return e;
    }
  }

  /** Returns the place up to which bytes have been moved. */
  long place() {
    return LaneSilence.place(done, moved);
  }

  /**
   * True if the receiver is to report that nothing comes. Also if its socket is broken: the sender
   * may not hear of that over the path that died, and it is the one to dial.
   */
  boolean owesReport(long now) {
    return silence.owesReport(now, place(), isBusy());
  }

  /**
   * Takes the receiver's report. Where all has come that was written, and the socket takes no more,
   * it is TCP's acknowledgements that are lost.
   */
  void takeReport(long reported, long now) {
    silence.report(now, reported, isBusy() ? LaneSilence.BEYOND : place());
  }

  /** True if another socket has taken over. */
  private boolean replace(Owner link, Duration bound) {
    if (failure == null && posted != done) {
      return false; // the lane thread is about to find the socket closed
    }
    Resumption.Resumed resumed = null;
    try {
      resumed = resumption.poll(() -> new Resumption.Position(sends ? 0 : done, moved, 0));
    } catch (NcclException e) {
      link.fail(cause, "; " + e.problem());
    }
    long nanos = System.nanoTime() - brokenSince;
    if (resumed == null) {
      if (nanos > Patience.nanos(bound)) {
        link.fail(cause, "; no other socket has taken over within " + Patience.text(bound));
      }
      return false;
    }
    resumption = null;
    silence.begin();
    long again = sends ? goOnAt(resumed.there()) : 0;
    doneBefore = done;
    movedBefore = moved;
    if (again < 0) {
      Sockets.close(resumed.socket());
      link.fail(cause, "; the two sides do not agree what has been received");
      return false;
    }
    link.replaced(index, resumed.socket(), Sockets.reason(cause), again, nanos);
    socket = resumed.socket();
    failure = null;
    return true;
  }

  /**
   * Goes back to what the receiver has not; returns the bytes between, -1 if that makes no sense.
   */
  private long goOnAt(Resumption.Position there) {
    long back = done - there.next();
    long part = there.next() < posted ? lengths[(int) there.next() & (PARTS - 1)] : 0;
    if (back < 0 || back >= PARTS || there.got() < 0 || part > 0 && there.got() >= part) {
      return -1;
    }
    long again = moved - there.got();
    for (long each = there.next(); each < done; each++) {
      again += lengths[(int) each & (PARTS - 1)];
    }
    moved = (int) there.got();
    done = there.next();
    return Math.max(0, again);
  }

  /** Replaces the socket no more. */
  void forget() {
    if (resumption != null) {
      resumption.close();
    }
  }

  /** True if it has something to move, if only over another socket. */
  boolean isBusy() {
    return posted != done;
  }

  @HotPath
  boolean isIdle() {
    return posted == done || failure != null;
  }

  /**
   * Moves what can be moved now; on the lane thread.
   *
   * @return bytes moved
   */
  @HotPath
  int progress() {
    if (isIdle()) {
      return 0;
    }
    // First: a socket that takes over comes after the place where it goes on.
    DataChannel over = socket;
    try {
      int slot = (int) done & (PARTS - 1);
      ByteBuffer view = memories[slot].view(index, offsets[slot] + moved, lengths[slot] - moved);
      int bytes = sends ? over.write(view) : over.read(view);
      if (bytes < 0) {
        throw new ClosedChannelException();
      }
      moved += bytes;
      if (moved == lengths[slot]) {
        moved = 0;
        done = done + 1;
      }
      return bytes;
    } catch (IOException | RuntimeException | Error e) {
      if (over == socket) {
        failure = e;
      }
      return 0;
    }
  }
}
