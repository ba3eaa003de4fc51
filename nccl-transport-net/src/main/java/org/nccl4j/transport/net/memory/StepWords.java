package org.nccl4j.transport.net.memory;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.connection.ConnectionLayout;

/** The words that a proxy shares with a kernel, by the order in which memory is seen. */
public final class StepWords {
  private static final VarHandle LONG =
      MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());

  private static final VarHandle INT =
      MethodHandles.byteBufferViewVarHandle(int[].class, ByteOrder.nativeOrder());

  private StepWords() {}

  /** A size, which a kernel may store at any time. */
  @HotPath
  static int loadInt(ByteBuffer region, long offset) {
    return (int) INT.getAcquire(region, (int) offset);
  }

  /** Publishes a size. */
  @HotPath
  static void storeInt(ByteBuffer region, long offset, int value) {
    INT.setRelease(region, (int) offset, value);
  }

  /**
   * True if all that the kernel of a channel has begun is sent.
   *
   * @param lines whether steps may be in LL
   */
  @HotPath
  public static boolean isSent(ByteBuffer data, ByteBuffer credit, int channel, boolean lines) {
    int word = ConnectionLayout.word(channel);
    long head = loadAcquire(credit, ConnectionLayout.HEAD + word);
    boolean inLines =
        lines && (loadInt(data, word + ConnectionLayout.size(head)) & ConnectionLayout.LINES) != 0;
    return !inLines && loadAcquire(data, ConnectionLayout.TAIL + word) <= head;
  }

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
