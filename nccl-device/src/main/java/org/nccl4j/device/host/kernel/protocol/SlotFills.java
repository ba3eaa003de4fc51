package org.nccl4j.device.host.kernel.protocol;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.memory.StreamingCopy;

/**
 * Copies data into the slots of Simple of one connection, by the C library or by streaming stores.
 * A slot's lines lie in the reader's cache when the writer fills it again. An ordinary store asks
 * for each of them, and a streaming store for none. What that costs depends on the processor, and
 * on a virtual machine also on the time: so every few thousand copies both ways are measured by
 * turns. Owned by the thread that runs the current kernel.
 */
final class SlotFills {
  /** Copies from one measurement to the next. The first ones touch new pages. */
  static final int PERIOD = 2048;

  /** The first copy of a period that is measured. */
  static final int FIRST = 64;

  /** Measured copies of each way; odd, for a median. */
  static final int SAMPLES = 7;

  /**
   * Streaming stores are to save so much of the writer's time, since the reader finds the data
   * further away.
   */
  private static final double GAIN = 0.75;

  private final StreamingCopy streaming = StreamingCopy.open();

  /** Picoseconds a byte, in ascending order. */
  private final long[] plain = new long[SAMPLES];

  private final long[] streamed = new long[SAMPLES];
  private int fills;
  private boolean streams;

  /** Copies some bytes, of which the next release store of this thread tells the reader. */
  @HotPath
  void fill(HostMemory source, long sourceOffset, HostMemory slots, long slotOffset, int bytes) {
    if (bytes < Copies.MANY || !streaming.isAvailable()) {
      Copies.copy(source, sourceOffset, slots, slotOffset, bytes);
      return;
    }
    int sample = fills - FIRST;
    fills = (fills + 1) % PERIOD;
    boolean measured = sample >= 0 && sample < 2 * SAMPLES;
    boolean stream = measured ? (sample & 1) != 0 : streams;
    long begin = measured ? System.nanoTime() : 0;
    if (stream) {
      streaming.copy(source.address() + sourceOffset, slots.address() + slotOffset, bytes);
    } else {
      Copies.copy(source, sourceOffset, slots, slotOffset, bytes);
    }
    if (measured) {
      add(sample, (System.nanoTime() - begin) * 1000 / bytes);
    }
  }

  /** Adds a time, and decides after the last one. */
  @HotPath
  void add(int sample, long picos) {
    long[] times = (sample & 1) == 0 ? plain : streamed;
    int at = sample / 2;
    for (; at > 0 && times[at - 1] > picos; at--) {
      times[at] = times[at - 1];
    }
    times[at] = picos;
    if (sample == 2 * SAMPLES - 1) {
      streams = streamed[SAMPLES / 2] < GAIN * plain[SAMPLES / 2];
    }
  }

  /** True if slots are filled by streaming stores now. */
  boolean streams() {
    return streams;
  }
}
