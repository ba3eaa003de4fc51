package org.nccl4j.api;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;

/**
 * The memory that one rank's call with a count for each rank reads and writes, to find parts that
 * overlap. Owned by the thread of the call.
 */
final class PartRanges {
  private final DeviceMemory send;
  private final DeviceMemory recv;
  private final DataType type;
  private final List<Range> all = new ArrayList<>();

  /** No parts yet; a buffer without parts may be null. */
  PartRanges(DeviceMemory send, DeviceMemory recv, DataType type) {
    this.send = send;
    this.recv = recv;
    this.type = type;
  }

  /**
   * The part for one rank.
   *
   * @param written whether the call writes it, else the call reads it
   */
  private record Range(boolean written, int rank, long begin, long bytes) {
    private long end() {
      return begin + bytes;
    }
  }

  /** Adds the part of the send buffer that is sent to a rank. */
  void send(DeviceMemory part, int to) {
    all.add(new Range(/* written= */ false, to, part.address(), part.size()));
  }

  /** Adds the part of the recv buffer that is received from a rank. */
  void receive(DeviceMemory part, int from) {
    all.add(new Range(/* written= */ true, from, part.address(), part.size()));
  }

  /** Allows that what is sent to a rank lies exactly where the part from that rank goes. */
  void allowInPlace(int rank) {
    all.removeIf(range -> !range.written && range.rank == rank && isReceived(range));
  }

  private boolean isReceived(Range sent) {
    return all.contains(new Range(/* written= */ true, sent.rank, sent.begin, sent.bytes));
  }

  /** Two parts that overlap, of which the call writes one or both, in words; empty if none do. */
  String overlap() {
    all.sort(Comparator.comparingLong(Range::begin));
    Range written = null;
    Range read = null; // the one of those before that ends last
    for (Range range : all) {
      if (reaches(written, range)) {
        return text(written, range);
      }
      if (range.written && reaches(read, range)) {
        return text(read, range);
      }
      if (range.written) {
        written = range;
      } else if (read == null || range.end() > read.end()) {
        read = range;
      }
    }
    return "";
  }

  private static boolean reaches(Range before, Range range) {
    return before != null && before.end() > range.begin;
  }

  private String text(Range one, Range other) {
    String where =
        one.written && other.written
            ? ""
            : "; the recv buffer begins %d bytes behind the send buffer"
                .formatted(recv.address() - send.address());
    return text(one) + " overlaps " + text(other) + where;
  }

  private String text(Range range) {
    DeviceMemory buffer = range.written ? recv : send;
    return "the part %s rank %d (%d elements at offset %d of the %s buffer)"
        .formatted(
            range.written ? "from" : "for",
            range.rank,
            range.bytes / type.bytes(),
            (range.begin - buffer.address()) / type.bytes(),
            range.written ? "recv" : "send");
  }
}
