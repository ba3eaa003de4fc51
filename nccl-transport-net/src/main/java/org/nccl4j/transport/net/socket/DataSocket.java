package org.nccl4j.transport.net.socket;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.SocketChannel;
import org.nccl4j.device.HotPath;

/**
 * A socket that carries parts of large messages one way, in the order in which they are posted. One
 * thread posts; the lane thread moves.
 */
final class DataSocket {
  private static final int PARTS = 256;

  private final SocketChannel socket;
  private final boolean sends;
  private final SocketMemory[] memories = new SocketMemory[PARTS];
  private final long[] offsets = new long[PARTS];
  private final int[] lengths = new int[PARTS];
  private int moved;

  /** Parts posted so far. Written by the thread that posts; publishes the arrays. */
  private volatile long posted;

  /** Parts moved so far. Written by the lane thread; publishes the bytes. */
  private volatile long done;

  private volatile Throwable failure;

  DataSocket(SocketChannel socket, boolean sends) {
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

  /** Returns the error that broke the socket, or null. */
  Throwable failure() {
    return failure;
  }

  @HotPath
  boolean isIdle() {
    return posted == done || failure != null;
  }

  /**
   * Moves what can be moved now; on the lane thread.
   *
   * @param index of the socket among the connection's
   * @return bytes moved
   */
  @HotPath
  int progress(int index) {
    if (isIdle()) {
      return 0;
    }
    try {
      int slot = (int) done & (PARTS - 1);
      ByteBuffer view = memories[slot].view(index, offsets[slot] + moved, lengths[slot] - moved);
      int bytes = sends ? socket.write(view) : socket.read(view);
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
      failure = e;
      return 0;
    }
  }
}
