package org.nccl4j.device.host.memory;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Words that threads and processes share. A thread that reads a released value with an acquire sees
 * all that was written before the release.
 */
public final class AtomicWords {
  private static final VarHandle LONG =
      MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());

  private AtomicWords() {}

  /** A 64-bit word, and all that its writer wrote before it. */
  public static long loadAcquire(ByteBuffer window, int index) {
    return (long) LONG.getAcquire(window, index);
  }

  /** Publishes a 64-bit word and all that this thread wrote before it. */
  public static void storeRelease(ByteBuffer window, int index, long value) {
    LONG.setRelease(window, index, value);
  }

  /** A 64-bit word of a memory, with all that its writer wrote before it. */
  public static long loadAcquire(HostMemory memory, long offset) {
    return (long) LONG.getAcquire(memory.window(offset), memory.index(offset));
  }

  /** Publishes a 64-bit word of a memory and all that this thread wrote before it. */
  public static void storeRelease(HostMemory memory, long offset, long value) {
    LONG.setRelease(memory.window(offset), memory.index(offset), value);
  }

  /** Adds to a 64-bit word of a memory, and publishes all that this thread wrote before it. */
  public static void addRelease(HostMemory memory, long offset, long value) {
    LONG.getAndAddRelease(memory.window(offset), memory.index(offset), value);
  }

  /**
   * A 64-bit word that needs no other for its meaning, so that no order with others is asked for.
   */
  public static long loadOpaque(ByteBuffer window, int index) {
    return (long) LONG.getOpaque(window, index);
  }

  /** Stores a 64-bit word that needs no other for its meaning. */
  public static void storeOpaque(ByteBuffer window, int index, long value) {
    LONG.setOpaque(window, index, value);
  }
}
