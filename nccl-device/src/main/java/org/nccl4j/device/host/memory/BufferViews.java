package org.nccl4j.device.host.memory;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.bind.NativeMemory;

/** Overlapping byte buffers over a range of addresses. */
final class BufferViews {
  /** A window begins every 2 to the SHIFT bytes. */
  static final int SHIFT = 30;

  static final int MASK = (1 << SHIFT) - 1;

  /** The most bytes of a buffer over an address that each JVM can make. */
  static final int MAX_BYTES = Integer.MAX_VALUE - 8;

  private static final Cleaner CLEANER = Cleaner.create();

  private BufferViews() {}

  static ByteBuffer[] over(long address, long bytes) {
    int count = (int) Math.max(1, (bytes + MASK) >>> SHIFT);
    ByteBuffer[] windows = new ByteBuffer[count];
    for (int w = 0; w < count; w++) {
      long begin = (long) w << SHIFT;
      int length = (int) Math.min(bytes - begin, MAX_BYTES);
      windows[w] =
          length == 0 ? ByteBuffer.allocateDirect(0) : NativeMemory.buffer(address + begin, length);
      windows[w].order(ByteOrder.nativeOrder());
    }
    return windows;
  }

  /**
   * Keeps what a window lies in reachable while the window is: buffers refer to the buffer that
   * they are slices of, and to nothing else.
   *
   * @param owner does not refer to the window
   */
  static void keep(ByteBuffer window, Object owner) {
    CLEANER.register(window, () -> Reference.reachabilityFence(owner));
  }

  @HotPath
  static void move(long from, long to, long bytes) {
    NativeMemory.copy(from, to, bytes);
  }

  static long addressOf(ByteBuffer direct) {
    return NativeMemory.addressOf(direct);
  }
}
