package org.nccl4j.transport.net.memory;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.nccl4j.device.HotPath;

/** The words that a proxy shares with a kernel, by the order in which memory is seen. */
public final class StepWords {
  private static final VarHandle LONG =
      MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());

  private StepWords() {}

  /** A tail or head, and all that its writer wrote before it. */
  @HotPath
  public static long loadAcquire(ByteBuffer region, long offset) {
    return (long) LONG.getAcquire(region, (int) offset);
  }

  /** Publishes a tail or head and all that this thread wrote before it. */
  @HotPath
  static void storeRelease(ByteBuffer region, long offset, long step) {
    LONG.setRelease(region, (int) offset, step);
  }
}
