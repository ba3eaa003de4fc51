package org.nccl4j.transport.net.socket.link;

import java.io.IOException;
import java.net.ProtocolException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.time.Duration;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import java.util.zip.CRC32C;
import org.nccl4j.api.wire.DataChannel;
import org.nccl4j.api.wire.Sockets;
import org.nccl4j.device.support.Patience;

/**
 * Puts another socket in the place of a broken one. Both ends first tell each other what they have
 * received over the old one: message or part that comes next (8), bytes of it (8), complete
 * messages (8), CRC32C (4). Never waits; owned by the thread that polls it.
 */
final class Resumption {
  /** A place in what an end has received. */
  record Position(long next, long got, long complete) {}

  /** A socket with what the other end has received. */
  record Resumed(DataChannel socket, Position there) {}

  private static final int BYTES = 3 * Long.BYTES + Integer.BYTES;

  /** Part of the time for a replacement that one socket may take of it. */
  private static final int TRIALS = 4;

  private final SpareSockets source;
  private final int index;
  private final long patience;
  private final LongSupplier clock;
  private final ByteBuffer out = ByteBuffer.allocate(BYTES);
  private final ByteBuffer in = ByteBuffer.allocate(BYTES);
  private DataChannel fresh;
  private long begin;

  /**
   * Of one place of a connection.
   *
   * @param bound longest time for a replacement
   * @param clock in nanoseconds
   */
  Resumption(SpareSockets source, int index, Duration bound, LongSupplier clock) {
    this.source = source;
    this.index = index;
    this.patience = Patience.nanos(bound) / TRIALS;
    this.clock = clock;
  }

  /**
   * Takes the next step.
   *
   * @param here what this end has received, which no longer changes
   * @return the socket once both ends know what the other has, else null
   * @throws org.nccl4j.device.NcclException if there will never be a socket
   */
  Resumed poll(Supplier<Position> here) {
    if (fresh == null || source.isOffered(index)) {
      DataChannel next = source.next(index);
      if (next == null) {
        return null;
      }
      Sockets.close(fresh);
      fresh = next;
      begin = clock.getAsLong();
      in.clear();
      put(here.get());
    }
    try {
      fresh.write(out);
      if (fresh.read(in) < 0) {
        throw new ClosedChannelException();
      }
      if (out.hasRemaining() || in.hasRemaining()) {
        if (source.dials() && clock.getAsLong() - begin > patience) {
          close(); // its path may have died since it was dialled; the other end takes the next
        }
        return null;
      }
      Resumed resumed = new Resumed(fresh, take());
      fresh = null;
      return resumed;
    } catch (IOException e) {
      close();
      return null;
    }
  }

  private void put(Position here) {
    out.clear().putLong(here.next).putLong(here.got).putLong(here.complete);
    out.putInt(sum(out)).flip();
  }

  private Position take() throws ProtocolException {
    if (in.getInt(BYTES - Integer.BYTES) != sum(in)) {
      throw new ProtocolException("what the other side says that it has is damaged");
    }
    return new Position(in.getLong(0), in.getLong(Long.BYTES), in.getLong(2 * Long.BYTES));
  }

  private static int sum(ByteBuffer frame) {
    CRC32C crc = new CRC32C();
    crc.update(frame.array(), 0, BYTES - Integer.BYTES);
    return (int) crc.getValue();
  }

  /** Closes a socket that is being tried. */
  void close() {
    Sockets.close(fresh);
    fresh = null;
  }
}
