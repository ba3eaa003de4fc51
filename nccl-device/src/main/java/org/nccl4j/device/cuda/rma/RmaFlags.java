package org.nccl4j.device.cuda.rma;

import java.lang.invoke.VarHandle;
import org.nccl4j.device.bind.NativeWords;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.driver.PinnedWords;

/**
 * Words in pinned memory of the host by which a GPU's streams and the processor tell each other of
 * one-sided operations with ranks outside the team. Those of a rank share a cache line:
 *
 * <pre>
 *   u64 credit: messages to the rank whose slots may be filled again   processor to stream
 *   u64 signals of the rank                                            processor to stream
 *   u64 messages of the rank whose data are in windows                 stream to processor
 * </pre>
 *
 * <p>After all ranks' come the numbers of the wait that streams began last, and ended last.
 */
final class RmaFlags implements AutoCloseable {
  private static final int STRIDE = 64;
  private static final int SIGNALS = 8;
  private static final int COPIED = 16;

  private final int ranks;
  private final PinnedWords memory;
  private final NativeWords words;

  RmaFlags(Gpu gpu, int ranks) {
    this.ranks = ranks;
    long bytes = (ranks + 1L) * STRIDE;
    memory = PinnedWords.allocate(gpu, bytes);
    words = new NativeWords(memory.host());
  }

  static long credit(int rank) {
    return (long) rank * STRIDE;
  }

  static long signals(int rank) {
    return (long) rank * STRIDE + SIGNALS;
  }

  static long copied(int rank) {
    return (long) rank * STRIDE + COPIED;
  }

  long begun() {
    return (long) ranks * STRIDE;
  }

  long ended() {
    return (long) ranks * STRIDE + SIGNALS;
  }

  /** Returns the device address of a word. */
  long address(long word) {
    return memory.address() + word;
  }

  /** A word, and all that its stream did before it. */
  long loadAcquire(long word) {
    long value = words.getLong(word);
    VarHandle.acquireFence();
    return value;
  }

  /** Publishes a word to a stream, and all that this thread saw or did before. */
  void storeRelease(long word, long value) {
    VarHandle.releaseFence();
    words.putLong(word, value);
  }

  /** Frees the flags. No stream may use them any more. */
  @Override
  public void close() {
    memory.close();
  }
}
