package org.nccl4j.api.observe.span;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.bootstrap.root.RankState;

/**
 * Some operations of one rank as they travel to an observer of the job.
 *
 * <p>As bytes: a mark that states do not begin with (4); 1 if the rank records, else nothing
 * follows (1); operations sent before (8), kept for later (4), left out (8); the number of
 * operations (4); the operations. Each of these is the number of its shape, which is described
 * where it is used first, and the differences of its number and begin from the one before, 0 or 1
 * more than its wait for the operation before, and its length, as numbers of 7 bits a byte.
 *
 * @param records false if the rank has too many recordings
 * @param sentBefore operations of the recording
 * @param left operations that are kept for the next question
 * @param leftOut operations for which there was no room, so far
 */
record SpanMessage(
    boolean records, long sentBefore, int left, long leftOut, List<OperationSpan> spans) {
  private static final int MARK = 0x7370_616F;
  private static final int HEADER_BYTES = 2 * Long.BYTES + 3 * Integer.BYTES + 1;
  private static final int MOST_TEXT = 200;
  private static final int MOST_BITS = 63;

  /** An operation without number and times. */
  private static OperationSpan shape(OperationSpan span) {
    return new OperationSpan(
        span.communicator(),
        shortened(span.name()),
        span.rank(),
        shortened(span.row()),
        shortened(span.operation()),
        shortened(span.type()),
        span.bytes(),
        span.root(),
        0,
        span.every(),
        0,
        0,
        0);
  }

  private static String shortened(String text) {
    return text.substring(0, Math.min(text.length(), MOST_TEXT));
  }

  private static void write(OperationSpan shape, DataOutputStream out) throws IOException {
    out.writeLong(shape.communicator());
    out.writeUTF(shape.name());
    out.writeInt(shape.rank());
    out.writeUTF(shape.row());
    out.writeUTF(shape.operation());
    out.writeUTF(shape.type());
    out.writeLong(shape.bytes());
    out.writeInt(shape.root());
    out.writeLong(shape.every());
  }

  private static OperationSpan readShape(DataInputStream in) throws IOException {
    return new OperationSpan(
        in.readLong(),
        in.readUTF(),
        in.readInt(),
        in.readUTF(),
        in.readUTF(),
        in.readUTF(),
        in.readLong(),
        in.readInt(),
        0,
        in.readLong(),
        0,
        0,
        0);
  }

  /** Builds a message. */
  static final class Writer {
    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    private final Map<OperationSpan, Integer> shapes = new HashMap<>();
    private long number;
    private long begin;
    private int count;

    /** Adds an operation; false if there is no room. */
    boolean add(OperationSpan span) {
      ByteArrayOutputStream one = new ByteArrayOutputStream();
      OperationSpan shape = shape(span);
      int known = shapes.getOrDefault(shape, shapes.size());
      try (DataOutputStream out = new DataOutputStream(one)) {
        writeNumber(known, out);
        if (known == shapes.size()) {
          write(shape, out);
        }
        writeDifference(span.number() - number, out);
        writeDifference(span.beginNanos() - begin, out);
        long waited = Math.max(0, span.readyNanos() - span.beginNanos());
        writeNumber(span.readyNanos() == 0 ? 0 : 1 + waited, out);
        writeDifference(span.endNanos() - span.beginNanos(), out);
      } catch (IOException e) {
        throw new UncheckedIOException(e); // of memory: there is none
      }
      if (HEADER_BYTES + bytes.size() + one.size() > RankState.MAX_BYTES) {
        return false;
      }
      shapes.put(shape, known);
      number = span.number();
      begin = span.beginNanos();
      count++;
      bytes.writeBytes(one.toByteArray());
      return true;
    }

    /** The message. */
    byte[] done(long sentBefore, int left, long leftOut) {
      ByteArrayOutputStream all = new ByteArrayOutputStream(HEADER_BYTES + bytes.size());
      try (DataOutputStream out = new DataOutputStream(all)) {
        out.writeInt(MARK);
        out.writeBoolean(true);
        out.writeLong(sentBefore);
        out.writeInt(left);
        out.writeLong(leftOut);
        out.writeInt(count);
        bytes.writeTo(out);
      } catch (IOException e) {
        throw new UncheckedIOException(e); // of memory: there is none
      }
      return all.toByteArray();
    }
  }

  /** The answer of a rank that has too many recordings. */
  static byte[] refusal() {
    ByteArrayOutputStream all = new ByteArrayOutputStream();
    try (DataOutputStream out = new DataOutputStream(all)) {
      out.writeInt(MARK);
      out.writeBoolean(false);
    } catch (IOException e) {
      throw new UncheckedIOException(e); // of memory: there is none
    }
    return all.toByteArray();
  }

  /**
   * Reads a message.
   *
   * @throws IOException if it is none, or damaged
   */
  static SpanMessage decode(byte[] bytes) throws IOException {
    try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
      if (in.readInt() != MARK) {
        throw new IOException("it is another message");
      }
      if (!in.readBoolean()) {
        return new SpanMessage(false, 0, 0, 0, List.of());
      }
      long sentBefore = in.readLong();
      int left = in.readInt();
      long leftOut = in.readLong();
      return new SpanMessage(true, sentBefore, left, leftOut, spans(in));
    }
  }

  private static List<OperationSpan> spans(DataInputStream in) throws IOException {
    List<OperationSpan> shapes = new ArrayList<>();
    List<OperationSpan> spans = new ArrayList<>();
    long number = 0;
    long begin = 0;
    for (int left = in.readInt(); left > 0; left--) {
      long known = readNumber(in);
      if (known == shapes.size()) {
        shapes.add(readShape(in));
      }
      if (known < 0 || known >= shapes.size()) {
        throw new IOException("it has an operation without a description");
      }
      OperationSpan of = shapes.get((int) known);
      number += readDifference(in);
      begin += readDifference(in);
      long waited = readNumber(in);
      spans.add(
          new OperationSpan(
              of.communicator(),
              of.name(),
              of.rank(),
              of.row(),
              of.operation(),
              of.type(),
              of.bytes(),
              of.root(),
              number,
              of.every(),
              begin,
              waited == 0 ? 0 : begin + waited - 1,
              begin + readDifference(in)));
    }
    return spans;
  }

  /** Small numbers of both signs are small ones. */
  private static void writeDifference(long value, DataOutputStream out) throws IOException {
    writeNumber(value << 1 ^ value >> MOST_BITS, out);
  }

  private static long readDifference(DataInputStream in) throws IOException {
    long value = readNumber(in);
    return value >>> 1 ^ -(value & 1);
  }

  private static void writeNumber(long value, DataOutputStream out) throws IOException {
    long left = value;
    while (left >>> 7 != 0) {
      out.writeByte((int) (left & 0x7F | 0x80));
      left >>>= 7;
    }
    out.writeByte((int) left);
  }

  private static long readNumber(DataInputStream in) throws IOException {
    long value = 0;
    for (int shift = 0; shift <= MOST_BITS; shift += 7) {
      int next = in.readUnsignedByte();
      value |= (long) (next & 0x7F) << shift;
      if (next < 0x80) {
        return value;
      }
    }
    throw new IOException("it has a number of too many bytes");
  }
}
