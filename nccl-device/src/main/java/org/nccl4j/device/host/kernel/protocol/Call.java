package org.nccl4j.device.host.kernel.protocol;

import java.util.function.Supplier;
import org.nccl4j.device.kernel.CallSignature;

/**
 * A call as its data carry it: the sender puts its own call's signature beside them, the receiver
 * compares that with its own call's. See {@link CallSignature}.
 */
public final class Call {
  /** Call of messages that are compared in another way. */
  public static final Call NONE = new Call(0, () -> "");

  /** Steps in an LL128 flag; its upper bits are the signature. */
  private static final long STEP_MASK = -1L >>> CallSignature.BITS;

  /** In a step's words, where that is 0 the sender said nothing. */
  public final short signature;

  /** The upper bits of LL flags. */
  final int line;

  /** True if who sends does not wait for who receives, as in a broadcast. */
  final boolean oneWay;

  private final long high;
  private final Supplier<String> text;

  /**
   * A call.
   *
   * @param text for messages
   */
  public Call(int signature, Supplier<String> text) {
    this(signature, text, /* oneWay= */ false);
  }

  /**
   * A call.
   *
   * @param text for messages
   * @param oneWay whether who sends does not wait for who receives
   */
  public Call(int signature, Supplier<String> text, boolean oneWay) {
    this.oneWay = oneWay;
    this.signature = (short) signature;
    this.line = CallSignature.line(signature) << Integer.SIZE - CallSignature.LINE_BITS;
    this.high = (long) signature << Long.SIZE - CallSignature.BITS;
    this.text = text;
  }

  /** The LL128 flag of a step that is full; never 0, which is what new memory holds. */
  public long flag(long step) {
    return high | step + 1 & STEP_MASK;
  }

  /** True if a flag is of the awaited one's step, but of another call. */
  static boolean isOther(long flag, long awaited) {
    return flag != awaited
        && (flag & STEP_MASK) == (awaited & STEP_MASK)
        && (flag & ~STEP_MASK) != 0;
  }

  /** Returns the text for messages. */
  @Override
  public String toString() {
    return text.get();
  }
}
