package org.nccl4j.device.host.kernel.protocol;

import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.CallSignature;

/**
 * The LL protocol's words: 4 bytes of data in the low half, 4 bytes of flag in the high half,
 * stored at once, so that a receiver which finds the flag has the data. A flag is 10 bits of the
 * call's signature above the lowest 22 bits of the step. Before these begin to repeat, the receiver
 * clears each slot, so that a word with a step's bits is of that step.
 */
public final class LlLines {
  private static final int STEP_MASK = -1 >>> CallSignature.LINE_BITS;

  private LlLines() {}

  /** The flag of a step; never 0, which is what new memory holds. */
  @HotPath
  public static int flag(long step, Call call) {
    return call.line | (int) step & STEP_MASK;
  }

  /** True if a slot's first word has a flag of the awaited one's step, but of another call. */
  public static boolean isOther(HostMemory lines, long offset, int awaited) {
    long word = AtomicWords.loadOpaque(lines.window(offset), lines.index(offset));
    int flag = (int) (word >>> 32);
    return flag != awaited
        && (flag & STEP_MASK) == (awaited & STEP_MASK)
        && (flag & ~STEP_MASK) != 0;
  }

  /**
   * True if a step is the last, of a number of slots that steps use in turn, to use its slot before
   * the steps in flags repeat: then the slot is to be cleared before it is given back.
   *
   * @param slots a power of two
   */
  @HotPath
  public static boolean isLastOfSlot(long step, int slots) {
    int last = STEP_MASK & -slots;
    return ((int) step & last) == last;
  }

  /** Clears a slot, before all that is stored afterwards. */
  public static void clear(HostMemory lines, long offset, int bytes) {
    for (int at = 0; at < bytes; at += 8) {
      AtomicWords.storeOpaque(lines.window(offset + at), lines.index(offset + at), 0);
    }
    VarHandle.releaseFence();
  }

  /** Writes data into a slot. */
  @HotPath
  public static void pack(
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
      AtomicWords.storeOpaque(to, toIndex + 2 * whole, high | low);
    }
    // The receiver polls the first word: written last, it comes with the rest of its cache line.
    for (int at = whole - 4; at >= 0; at -= 4) {
      long low = from.getInt(fromIndex + at) & 0xffffffffL;
      AtomicWords.storeOpaque(to, toIndex + 2 * at, high | low);
    }
  }

  /** Reads data from a slot, waiting for each word. */
  @HotPath
  public static void unpack(
      RecvEnd end, HostMemory target, long targetOffset, int bytes, Call call, SpinWait waiter) {
    unpack(end, 0, target, targetOffset, bytes, call, waiter);
  }

  /** Reads data of a slot from a place on, a multiple of 4, waiting for each word. */
  @HotPath
  static void unpack(
      RecvEnd end,
      int at,
      HostMemory target,
      long targetOffset,
      int bytes,
      Call call,
      SpinWait waiter) {
    int flag = end.llFlag(call);
    long slot = end.llSlot() + 2 * at;
    unpack(end.memory(), slot, target, targetOffset, bytes, flag, call, end.awaited(), waiter);
  }

  /**
   * Reads data that a peer packs, waiting for each word.
   *
   * @param from where else the peer's data of another call may come
   */
  @HotPath
  public static void unpack(
      HostMemory lines,
      long offset,
      HostMemory target,
      long targetOffset,
      int bytes,
      int flag,
      Call call,
      Sender from,
      SpinWait waiter) {
    ByteBuffer words = lines.window(offset);
    int first = lines.index(offset);
    ByteBuffer to = target.window(targetOffset);
    int toIndex = target.index(targetOffset);
    int whole = bytes & ~3;
    for (int at = 0; at < whole; at += 4) {
      long word = AtomicWords.loadOpaque(words, first + 2 * at);
      if ((int) (word >>> 32) != flag) {
        word = await(words, first + 2 * at, flag, call, from, waiter);
      }
      to.putInt(toIndex + at, (int) word);
    }
    if (whole < bytes) {
      long word = await(words, first + 2 * whole, flag, call, from, waiter);
      for (int at = whole; at < bytes; at++) {
        to.put(toIndex + at, (byte) word);
        word >>>= 8;
      }
    }
  }

  /** True if all words of a slot's data have come. */
  @HotPath
  public static boolean isComplete(RecvEnd end, int bytes, int flag) {
    HostMemory lines = end.memory();
    ByteBuffer from = lines.window(end.llSlot());
    int fromIndex = lines.index(end.llSlot());
    for (int at = (bytes - 1) & ~3; at >= 0; at -= 4) {
      if ((int) (AtomicWords.loadOpaque(from, fromIndex + 2 * at) >>> 32) != flag) {
        return false;
      }
    }
    return true;
  }

  private static long await(
      ByteBuffer from, int index, int flag, Call call, Sender sender, SpinWait waiter) {
    waiter.begin();
    while (true) {
      boolean other = waiter.isSlow() && sender.sentAnother(call);
      long word = AtomicWords.loadOpaque(from, index);
      if ((int) (word >>> 32) == flag) {
        return word;
      }
      if (other) {
        throw waiter.differs(call, sender.peer());
      }
      waiter.idle(sender.peer(), "data");
    }
  }
}
