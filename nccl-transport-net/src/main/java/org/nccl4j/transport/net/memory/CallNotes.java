package org.nccl4j.transport.net.memory;

import java.nio.ByteBuffer;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.CallSignature;

/**
 * The call of a step, for kernels and for the network: a note, which is the call's signature or
 * {@link #OTHER}. The note is 0 if the step belongs to the same call as the previous step. A
 * network without notes gives 0 for all messages.
 */
public enum CallNotes {
  /** The host's kernels: 2 bytes a step, 0 where nothing is said. */
  HOST {
    @Override
    @HotPath
    int read(ByteBuffer data, int word, long step) {
      int signature = data.getShort(word + (int) ConnectionLayout.signature(step)) & 0xffff;
      return signature == 0 ? OTHER : signature;
    }

    @Override
    @HotPath
    void write(ByteBuffer data, int word, long step, int note) {
      data.putShort(
          word + (int) ConnectionLayout.signature(step), (short) (note == OTHER ? 0 : note));
    }
  },

  /** A GPU's kernels: 4 bytes with the first step of a call, 0 where nothing is known of it. */
  GPU {
    @Override
    @HotPath
    int read(ByteBuffer data, int word, long step) {
      int said = data.getInt(word + (int) ConnectionLayout.call(step));
      int signature = said >>> CallSignature.BITS;
      return signature != 0 && (said & MASK) == number(step) ? signature : OTHER;
    }

    @Override
    @HotPath
    void write(ByteBuffer data, int word, long step, int note) {
      int number = note == OTHER ? ~number(step) & MASK : number(step);
      data.putInt(
          word + (int) ConnectionLayout.call(step),
          note == 0 ? 0 : note << CallSignature.BITS | number);
    }
  };

  /** Mark of a step of which its kernel says nothing, such as one that is not a call's first. */
  static final int OTHER = 1;

  /** Note of a message that holds the packed lines of a step in LL. No call has this signature. */
  public static final int LINES = 2;

  private static final int MASK = (1 << CallSignature.BITS) - 1;

  /**
   * Returns the number that a GPU's kernels send with a signature, so that nobody takes an older
   * step's for it.
   */
  private static int number(long step) {
    return (int) (step / ConnectionLayout.STEPS) & MASK;
  }

  /** The note of a step that a kernel has filled; never 0. */
  abstract int read(ByteBuffer data, int word, long step);

  /**
   * Tells a kernel of a step that has been received.
   *
   * @param note 0 if none ever came
   */
  abstract void write(ByteBuffer data, int word, long step, int note);
}
