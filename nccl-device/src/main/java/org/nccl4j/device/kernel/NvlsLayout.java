package org.nccl4j.device.kernel;

import org.nccl4j.device.connection.ConnectionLayout;

/**
 * The layout of NVLS's buffers in the memory of a rank, the same on all ranks, so that one place of
 * the multicast object is the same buffer of every rank.
 *
 * <pre>
 * for each head h
 *   reduce     nChannels x connection   every rank writes its own, head h reads all of them combined
 *   broadcast  nChannels x connection   head h writes all of them, every rank reads its own
 *
 * connection
 *   0                8 slots x chunkBytes
 *   8 x chunkBytes   head word (u64): steps whose slot is free again
 *   + 2048           tail word (u64): steps whose slot is full; behind it, as in other connections,
 *                    the signatures of the slots' steps, where the device has them
 *   + 4096           the next connection
 * </pre>
 *
 * <p>Steps and slots are those of {@link ConnectionLayout}: step s uses slot s mod 8. In reduce,
 * each rank stores its own tail and the head waits for the least of all ranks' tails; the head
 * stores all ranks' head words at once. In broadcast, the head stores all tails at once, each rank
 * stores its own head word, and the head waits for the least of them.
 *
 * @param nHeads ranks that combine a part each
 * @param nChannels channels that share an operation; their number does not depend on the heads'
 * @param chunkBytes bytes of a slot, a multiple of 512
 */
public record NvlsLayout(int nHeads, int nChannels, int chunkBytes) {
  /** Bytes behind the slots of a connection, for its two words. */
  public static final int WORDS_BYTES = 4096;

  /** Offset of the tail word from the head word. */
  public static final int TAIL = WORDS_BYTES / 2;

  /** Most heads, as the kernels have room for them. */
  public static final int MOST_HEADS = 32;

  private static final int CHUNK_MULTIPLE = 512;

  /** Checks the sizes. */
  public NvlsLayout {
    if (nHeads < 1 || nChannels < 1 || nChannels > ConnectionLayout.CHANNELS) {
      throw new IllegalArgumentException(nHeads + " heads, " + nChannels + " channels");
    }
    if (chunkBytes < CHUNK_MULTIPLE || chunkBytes % CHUNK_MULTIPLE != 0) {
      throw new IllegalArgumentException("slots of " + chunkBytes + " bytes");
    }
  }

  /** Offset of the first channel's connection on which a head's parts are combined. */
  public long reduce(int head) {
    return 2L * head * nChannels * connectionBytes();
  }

  /** Offset of the first channel's connection on which a head's results come back. */
  public long broadcast(int head) {
    return (2L * head + 1) * nChannels * connectionBytes();
  }

  /** Offset of a step's slot in a connection. */
  public long slot(long step) {
    return (step & (ConnectionLayout.STEPS - 1)) * chunkBytes;
  }

  /** Offset of the head word in a connection. */
  public long head() {
    return (long) ConnectionLayout.STEPS * chunkBytes;
  }

  /** Offset of the tail word in a connection. */
  public long tail() {
    return head() + TAIL;
  }

  /** Offset of a step's signature in a connection. */
  public long signature(long step) {
    return tail() + ConnectionLayout.signature(step);
  }

  /** Bytes of a connection. */
  public long connectionBytes() {
    return (long) ConnectionLayout.STEPS * chunkBytes + WORDS_BYTES;
  }

  /** Bytes of a rank's memory. */
  public long bytes() {
    return 2L * nHeads * nChannels * connectionBytes();
  }
}
