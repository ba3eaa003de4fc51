package org.nccl4j.transport.net.socket.link;

import java.io.IOException;
import java.net.ProtocolException;
import java.nio.ByteBuffer;
import org.nccl4j.api.wire.DataChannel;
import org.nccl4j.device.HotPath;

/**
 * The messages of a sender that its receiver may not have yet, as records: a message's header with,
 * if it is short, a copy of its bytes, in a ring from which they are written to the socket. Bytes
 * that are not copied follow from the message's memory. A record stays until the receiver has
 * acknowledged its message, so that another socket can go on at any byte. Owned by the thread that
 * has its link's turn, but for what is volatile.
 */
final class SendLog {
  /** Messages up to this size are copied behind their header, so that both are one piece. */
  static final int COPIED = 8 << 10;

  /** Messages that can be in the log. */
  static final int RECORDS = 64;

  /** Bytes of headers and short messages that can be in the log. */
  static final int RING = 64 << 10;

  private final ByteBuffer ring = ByteBuffer.allocateDirect(RING);
  private final ByteBuffer out = ring.duplicate();
  private final ByteBuffer[] pieces = new ByteBuffer[2];

  /** By record: where it begins, counted on and on over all rounds of the ring. */
  private final long[] begins = new long[RECORDS];

  /** By record: bytes before the message's own, and all that are in the ring. */
  private final int[] headers = new int[RECORDS];

  private final int[] lengths = new int[RECORDS];

  /** By record: the bytes that follow from memory, of which there may be none. */
  private final SocketMemory[] memories = new SocketMemory[RECORDS];

  private final long[] offsets = new long[RECORDS];
  private final int[] rests = new int[RECORDS];
  private long end;

  /** Messages that have records, have been written, and have been acknowledged. */
  private volatile long packed;

  private volatile long written;
  private volatile long acked;

  /** Bytes of the record after the written ones that have been written. */
  private long sent;

  @HotPath
  private static int slot(long number) {
    return (int) number & (RECORDS - 1);
  }

  @HotPath
  long packed() {
    return packed;
  }

  @HotPath
  long written() {
    return written;
  }

  /** Messages that the receiver has. */
  @HotPath
  long acked() {
    return acked;
  }

  /** True if no record is written in part. */
  @HotPath
  boolean isBetweenRecords() {
    return sent == 0;
  }

  /**
   * Begins the next message's record.
   *
   * @param bytes it will have in the ring
   * @return the ring at its place, or null if there is no room before more is acknowledged
   */
  @HotPath
  ByteBuffer begin(int bytes) {
    long number = packed;
    if (number - acked >= RECORDS) {
      return null;
    }
    long begin = end;
    if ((begin & (RING - 1)) + bytes > RING) {
      begin = (begin | (RING - 1)) + 1;
    }
    if (number > acked && begin + bytes - begins[slot(acked)] > RING) {
      return null;
    }
    begins[slot(number)] = begin;
    int at = (int) begin & (RING - 1);
    ring.limit(at + bytes).position(at);
    return ring;
  }

  /**
   * Ends the record, which is in the ring.
   *
   * @param header bytes in the ring before the message's own
   * @param memory of the bytes that follow
   * @param rest number of these
   */
  @HotPath
  void end(int header, SocketMemory memory, long offset, int rest) {
    long number = packed;
    int slot = slot(number);
    headers[slot] = header;
    lengths[slot] = ring.position() - ((int) begins[slot] & (RING - 1));
    memories[slot] = memory;
    offsets[slot] = offset;
    rests[slot] = rest;
    end = begins[slot] + lengths[slot];
    packed = number + 1;
  }

  /** Writes as much as the socket takes; true if no record is left. */
  @HotPath
  boolean write(DataChannel socket) throws IOException {
    while (written < packed) {
      long last = written;
      long run = Math.max(0, lengths[slot(last)] - sent);
      while (rests[slot(last)] == 0 && last + 1 < packed && follows(last + 1)) {
        last++;
        run += lengths[slot(last)];
      }
      int slot = slot(last);
      long gone = last == written ? Math.max(0, sent - lengths[slot]) : 0;
      int left = (int) (rests[slot] - gone);
      ByteBuffer rest = left == 0 ? null : memories[slot].view(0, offsets[slot] + gone, left);
      long bytes;
      if (run == 0) {
        bytes = socket.write(rest);
      } else {
        int at = (int) (begins[slot(written)] + sent) & (RING - 1);
        out.limit(at + (int) run).position(at);
        bytes = rest == null ? socket.write(out) : gather(socket, rest);
      }
      advance(bytes);
      if (bytes < run + left) {
        return false;
      }
    }
    return true;
  }

  private long gather(DataChannel socket, ByteBuffer rest) throws IOException {
    pieces[0] = out;
    pieces[1] = rest;
    return socket.write(pieces);
  }

  /** True if a record lies right behind the one before it. */
  private boolean follows(long number) {
    long begin = begins[slot(number)];
    int before = slot(number - 1);
    return begin == begins[before] + lengths[before] && (begin & (RING - 1)) != 0;
  }

  private void advance(long bytes) {
    long left = bytes;
    while (left > 0) {
      int slot = slot(written);
      long more = Math.min(left, (long) lengths[slot] + rests[slot] - sent);
      sent += more;
      left -= more;
      if (sent == (long) lengths[slot] + rests[slot]) {
        sent = 0;
        written = written + 1;
      }
    }
  }

  /** The receiver has so many messages. */
  @HotPath
  void acknowledge(long messages) throws IOException {
    if (messages > packed) {
      throw new DamagedMessageException(
          "message %d is acknowledged, of which %d have been sent".formatted(messages, packed));
    }
    if (messages > acked) {
      acked = messages;
    }
  }

  /**
   * Goes on over another socket.
   *
   * @param next the message that the receiver reads next
   * @param got bytes of it that the receiver has, without its header; -1 if not even that
   * @return bytes that are written once more
   */
  long resume(long next, long got, long complete) throws IOException {
    if (complete < 0
        || complete > next
        || next < acked
        || next > packed
        || got < -1
        || next == packed && got >= 0
        || got >= 0 && got > lengths[slot(next)] - headers[slot(next)] + (long) rests[slot(next)]) {
      throw new ProtocolException(
          "the other side has %d messages and %d bytes, and this side %d to %d"
              .formatted(next, got, acked, packed));
    }
    acknowledge(complete);
    long bytes = sent;
    for (long each = next; each < written; each++) {
      bytes += lengths[slot(each)] + (long) rests[slot(each)];
    }
    written = next;
    sent = got < 0 ? 0 : headers[slot(next)] + got;
    return Math.max(0, bytes - sent);
  }

  /** As if so many messages had been sent and acknowledged; for tests. */
  void startAt(long messages) {
    packed = messages;
    written = messages;
    acked = messages;
  }
}
