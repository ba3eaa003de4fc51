package org.nccl4j.transport.net.memory;

import java.nio.ByteBuffer;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.connection.ConnectionLayout;

/**
 * The LL slots of a channel that a GPU's kernel shares with a proxy. Lines do not go over the
 * network as they are: the proxy packs their data into the step's Simple slot, which the step does
 * not use, and at the other end stores lines with flags from what came into that slot. So the
 * kernel sees a line only once the network has brought, and checked, all of the message; and half
 * of the bytes travel.
 *
 * <p>A line is 16 bytes: 4 of data, the flag s + 1 of step s, 4 of data, the flag s + 1 + 65536 *
 * the call's signature. A half of it is loaded and stored as a whole, by the kernel and here. A
 * packed message is the signature in 8 bytes and then the data, in multiples of 8 bytes, and a byte
 * more where its size is the {@linkplain LineMark mark}.
 *
 * <p>Owner: the thread that gives the proxy its turns.
 */
final class GpuLineSlots {
  private static final int LINE = 16;
  private static final int HALF = 8;
  private static final int SIGNATURE_BYTES = 8;
  private static final long DATA = 0xffff_ffffL;

  /** Steps after which flags of 32 bits repeat, in half; a slot has been cleared by then. */
  private static final long CLEARED_EACH = 1L << 31;

  private final ConnectionLayout layout;
  private final ByteBuffer data;
  private final int number;
  private final LineMark mark;

  /** Lines of the step under way that have been packed. */
  private int packed;

  /**
   * The lines of a channel.
   *
   * @param data the data side, in memory of the host
   * @param mark of messages that hold lines
   */
  GpuLineSlots(ConnectionLayout layout, ByteBuffer data, int number, LineMark mark) {
    this.layout = layout;
    this.data = data;
    this.number = number;
    this.mark = mark;
  }

  /** Bytes that a GPU's kernels use of an LL slot. */
  static long used(ConnectionLayout layout, int channels) {
    return (long) channels * part(layout);
  }

  private static int part(ConnectionLayout layout) {
    return layout.llSlotBytes() / ConnectionLayout.CHANNELS;
  }

  private int lines(long step) {
    return (int) layout.ll(step) + number * part(layout);
  }

  private int message(long step) {
    return (int) layout.simple(step)
        + number * (layout.simpleSlotBytes() / ConnectionLayout.CHANNELS);
  }

  /** Bytes of the message of a step. */
  @HotPath
  int bytes(int size) {
    return mark == LineMark.SIZE ? packedBytes(size) + 1 : packedBytes(size);
  }

  private static int packedBytes(int size) {
    int data = (size & ~ConnectionLayout.LINES) >>> ConnectionLayout.LINES_SIZE;
    return SIGNATURE_BYTES + (data + HALF - 1) / HALF * HALF;
  }

  /** Most bytes of packed lines. */
  static int most(ConnectionLayout layout) {
    return SIGNATURE_BYTES + part(layout) / LINE * HALF;
  }

  /** True if a message that has come holds lines. */
  @HotPath
  boolean hold(int note, int messageBytes) {
    return mark == LineMark.SIZE
        ? LineMark.isOfLines(messageBytes, most(layout))
        : note == CallNotes.LINES;
  }

  /**
   * Packs the lines of a step that have come; called again until it is true, when all have.
   *
   * @param size of the step, with the mark
   */
  @HotPath
  boolean pack(long step, int size) {
    int lines = (packedBytes(size) - SIGNATURE_BYTES) / HALF;
    int signature = size & 0xffff;
    int first = (int) step + 1;
    int second = first + (signature << 16);
    int from = lines(step);
    int to = message(step);
    if (packed == 0) {
      data.putLong(to, signature);
    }
    while (packed < lines) {
      long low = StepWords.loadAcquire(data, from + packed * LINE);
      long high = StepWords.loadAcquire(data, from + packed * LINE + HALF);
      if ((int) (low >>> 32) != first || (int) (high >>> 32) != second) {
        return false;
      }
      packed++;
      data.putLong(to + packed * HALF, low & DATA | high << 32);
    }
    packed = 0;
    return true;
  }

  /** Stores the lines of a step from the message that came into its Simple slot. */
  @HotPath
  void unpack(long step, int messageBytes) {
    int from = message(step);
    int to = lines(step);
    int packedBytes = mark == LineMark.SIZE ? messageBytes - 1 : messageBytes;
    int lines = packedBytes / HALF - 1;
    if (lines < 0 || lines * LINE > part(layout) || packedBytes % HALF != 0) {
      throw new RemoteException(
          ErrorId.PROTOCOL,
          "a step of LL came in a message of %d bytes, where at most %d lines fit"
              .formatted(messageBytes, part(layout) / LINE),
          "run the same version of nccl4j on all ranks");
    }
    long first = ((step + 1) & DATA) << 32;
    long second = (step + 1 + ((data.getLong(from) & 0xffff) << 16) & DATA) << 32;
    for (int line = 0; line < lines; line++) {
      long both = data.getLong(from + (line + 1) * HALF);
      // The call's half first: a kernel takes a line that has the step's half alone for another
      // call's, and this thread may lose its core between the two.
      StepWords.storeRelease(data, to + line * LINE + HALF, both >>> 32 | second);
      StepWords.storeRelease(data, to + line * LINE, both & DATA | first);
    }
  }

  /**
   * Called for each step whose slot is empty. Clears it before flags of lines that have lain in it
   * for long are those of new steps.
   */
  @HotPath
  void emptied(long step) {
    if (step % CLEARED_EACH >= CLEARED_EACH - ConnectionLayout.STEPS) {
      for (int at = 0; at < part(layout); at += HALF) {
        data.putLong(lines(step) + at, 0);
      }
    }
  }
}
