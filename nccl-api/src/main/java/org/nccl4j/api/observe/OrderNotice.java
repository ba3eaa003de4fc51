package org.nccl4j.api.observe;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Notice of the order in which two communicators' calls wait in one stream of a process. The first
 * communicator's call waits until all ranks have reached it, and the other's call waits behind it.
 * If another process has the same two calls in the opposite order, neither call ever ends. The
 * notice goes to the ranks of other hosts, because this process does not read their recorders.
 *
 * @param first number of the communicator whose call is in front
 * @param firstCall that call's number among those that it compares, the same on all ranks
 * @param behind number of the other
 * @param behindCall likewise
 * @param name of the first
 * @param text the two calls and their places, for messages
 */
record OrderNotice(
    long first, long firstCall, long behind, long behindCall, String name, String text) {
  /** First byte of a notice of this kind. */
  static final byte KIND = 1;

  private static final int MOST_TEXT = 2000;

  byte[] encode() {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (DataOutputStream out = new DataOutputStream(bytes)) {
      out.writeByte(KIND);
      out.writeLong(first);
      out.writeLong(firstCall);
      out.writeLong(behind);
      out.writeLong(behindCall);
      out.writeUTF(cut(name));
      out.writeUTF(cut(text));
    } catch (IOException e) {
      throw new UncheckedIOException(e); // of memory: there is none
    }
    return bytes.toByteArray();
  }

  private static String cut(String text) {
    return text.substring(0, Math.min(text.length(), MOST_TEXT));
  }

  /** Empty for bytes that are no notice. */
  static Optional<OrderNotice> decode(byte[] bytes) {
    try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
      if (in.readByte() != KIND) {
        return Optional.empty();
      }
      return Optional.of(
          new OrderNotice(
              in.readLong(),
              in.readLong(),
              in.readLong(),
              in.readLong(),
              in.readUTF(),
              in.readUTF()));
    } catch (IOException e) {
      return Optional.empty();
    }
  }

  private boolean contradicts(OrderNotice other) {
    return first == other.behind
        && firstCall == other.behindCall
        && behind == other.first
        && behindCall == other.firstCall;
  }

  /** The last notices received, one of each two communicators. Any thread. */
  static final class Heard {
    private static final int MOST = 1000;

    private record Two(long first, long behind) {}

    private final Map<Two, OrderNotice> last =
        new LinkedHashMap<>() {
          private static final long serialVersionUID = 1;

          @Override
          protected boolean removeEldestEntry(Map.Entry<Two, OrderNotice> eldest) {
            return size() > MOST;
          }
        };

    synchronized void add(OrderNotice notice) {
      last.put(new Two(notice.first, notice.behind), notice);
    }

    /** The first pair that contradict each other, of the given and the received notices. */
    synchronized Optional<List<OrderNotice>> contradicting(List<OrderNotice> own) {
      for (OrderNotice mine : own) {
        OrderNotice theirs = last.get(new Two(mine.behind, mine.first));
        if (theirs != null && theirs.contradicts(mine)) {
          return Optional.of(List.of(mine, theirs));
        }
      }
      return Optional.empty();
    }
  }
}
