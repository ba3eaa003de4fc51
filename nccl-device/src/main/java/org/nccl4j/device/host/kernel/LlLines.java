package org.nccl4j.device.host.kernel;

import java.nio.ByteBuffer;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.memory.Words;
import org.nccl4j.device.kernel.ConnectionLayout;

/**
 * The LL protocol's words: 4 bytes of data in the low half, 4 bytes of flag in the high half,
 * stored at once, so that a receiver which finds the flag has the data. The flag of a step differs
 * from that of every older step that could have left a word in the slot.
 */
final class LlLines {
  private static final int FLAG_BITS = 30;
  private static final long FLAG_MASK = (1L << FLAG_BITS) - 1;

  private LlLines() {}

  /** The flag of a step; never 0, which is what new memory holds. */
  @HotPath
  static int flag(long step) {
    return (int) (step & FLAG_MASK) + 1;
  }

  /** Whether flags begin to repeat at a step, so that its slot has to be cleared first. */
  @HotPath
  static boolean wrapped(long step) {
    return step > FLAG_MASK && (step & FLAG_MASK) < ConnectionLayout.STEPS;
  }

  static void clear(HostMemory lines, long offset, int bytes) {
    for (int at = 0; at < bytes; at += 8) {
      Words.storeOpaque(lines.window(offset + at), lines.index(offset + at), 0);
    }
  }

  /** Writes data into a slot. */
  @HotPath
  static void pack(
      HostMemory source, long sourceOffset, int bytes, HostMemory lines, long offset, int flag) {
    ByteBuffer from = source.window(sourceOffset);
    int fromIndex = source.index(sourceOffset);
    ByteBuffer to = lines.window(offset);
    int toIndex = lines.index(offset);
    long high = (long) flag << 32;
    int whole = bytes & ~3;
    if (whole < bytes) {
      long low = 0;
      for (int at = bytes - 1; at >= whole; at--) {
        low = low << 8 | (from.get(fromIndex + at) & 0xff);
      }
      Words.storeOpaque(to, toIndex + 2 * whole, high | low);
    }
    // The receiver polls the first word: written last, it comes with the rest of its cache line.
    for (int at = whole - 4; at >= 0; at -= 4) {
      long low = from.getInt(fromIndex + at) & 0xffffffffL;
      Words.storeOpaque(to, toIndex + 2 * at, high | low);
    }
  }

  /** Reads data from a slot, waiting for each word. */
  @HotPath
  static void unpack(
      RecvEnd end, HostMemory target, long targetOffset, int bytes, int flag, Waiter waiter) {
    unpack(end.memory(), end.llSlot(), end.peer, target, targetOffset, bytes, flag, waiter);
  }

  /** Reads data that a peer packs, waiting for each word. */
  @HotPath
  static void unpack(
      HostMemory lines,
      long offset,
      int peer,
      HostMemory target,
      long targetOffset,
      int bytes,
      int flag,
      Waiter waiter) {
    ByteBuffer from = lines.window(offset);
    int fromIndex = lines.index(offset);
    ByteBuffer to = target.window(targetOffset);
    int toIndex = target.index(targetOffset);
    int whole = bytes & ~3;
    for (int at = 0; at < whole; at += 4) {
      long word = Words.loadOpaque(from, fromIndex + 2 * at);
      if ((int) (word >>> 32) != flag) {
        word = await(from, fromIndex + 2 * at, flag, peer, waiter);
      }
      to.putInt(toIndex + at, (int) word);
    }
    if (whole < bytes) {
      long word = await(from, fromIndex + 2 * whole, flag, peer, waiter);
      for (int at = whole; at < bytes; at++) {
        to.put(toIndex + at, (byte) word);
        word >>>= 8;
      }
    }
  }

  /** Whether all words of a slot's data have come. */
  @HotPath
  static boolean isComplete(RecvEnd end, int bytes, int flag) {
    HostMemory lines = end.memory();
    ByteBuffer from = lines.window(end.llSlot());
    int fromIndex = lines.index(end.llSlot());
    for (int at = (bytes - 1) & ~3; at >= 0; at -= 4) {
      if ((int) (Words.loadOpaque(from, fromIndex + 2 * at) >>> 32) != flag) {
        return false;
      }
    }
    return true;
  }

  private static long await(ByteBuffer from, int index, int flag, int peer, Waiter waiter) {
    waiter.begin();
    long word = Words.loadOpaque(from, index);
    while ((int) (word >>> 32) != flag) {
      waiter.idle(peer, "data");
      word = Words.loadOpaque(from, index);
    }
    return word;
  }
}
