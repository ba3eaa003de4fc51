package org.nccl4j.device.host.memory;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.stream.IntStream;

/**
 * Compares process_vm_readv with the two copies that take data through a slot, on this process's
 * own memory. Which is faster depends on the processor and the kernel: process_vm_readv looks up
 * and pins every page. Measured once in a process, in some milliseconds.
 */
public final class ProcessCopyProbe {
  /** The sizes that are measured. The largest is about a slot of Simple. */
  static final List<Integer> SIZES = List.of(32 << 10, 64 << 10, 128 << 10, 256 << 10);

  /**
   * A single copy may take so many times two copies' time and still be worth it. Here all memory is
   * in one core's cache. Between ranks, a slot's lines also go from one core's cache to the other's
   * and back. On an Intel Xeon both ways take the same time here, and ranks gain up to two times;
   * on an AMD EPYC a single copy takes 1.7 to 2 times as long here, and ranks lose.
   */
  private static final double WORTH = 1.2;

  private static final int ROUNDS = 12;

  private ProcessCopyProbe() {}

  /** The outcome; a class of its own measures late. */
  private static final class Outcome {
    static final Times TIMES = measure();
  }

  /**
   * The least times that were measured.
   *
   * @param single nanoseconds of process_vm_readv, by size; empty where it does not work
   * @param twice nanoseconds of two copies, by size
   */
  public record Times(List<Long> single, List<Long> twice) {
    /**
     * The least size from which on process_vm_readv is faster.
     *
     * @return bytes; {@link Integer#MAX_VALUE} where it is slower at the largest size
     */
    public int leastBytes() {
      int least = Integer.MAX_VALUE;
      for (int s = single.size() - 1; s >= 0; s--) {
        if (single.get(s) > WORTH * twice.get(s)) {
          break;
        }
        least = SIZES.get(s);
      }
      return least;
    }

    /** Both times of the largest size, for a log. */
    @Override
    public String toString() {
      int last = SIZES.size() - 1;
      return single.isEmpty()
          ? "process_vm_readv does not work"
          : "%d bytes take %.1f us by process_vm_readv and %.1f us by two copies"
              .formatted(SIZES.get(last), single.get(last) / 1e3, twice.get(last) / 1e3);
    }
  }

  /** The times of this process, measured at the first call. Any thread. */
  public static Times times() {
    return Outcome.TIMES;
  }

  private static Times measure() {
    int most = SIZES.get(SIZES.size() - 1);
    ByteBuffer source = ByteBuffer.allocateDirect(most);
    ByteBuffer slot = ByteBuffer.allocateDirect(most);
    ByteBuffer target = ByteBuffer.allocateDirect(most);
    ProcessMemory self = new ProcessMemory(ProcessHandle.current().pid());
    long from = BufferViews.addressOf(source);
    long through = BufferViews.addressOf(slot);
    long to = BufferViews.addressOf(target);
    for (int at = 0; at < most; at += 64) {
      source.put(at, (byte) at);
    }
    long[] single = new long[SIZES.size()];
    long[] twice = new long[SIZES.size()];
    for (int s = 0; s < single.length; s++) {
      int bytes = SIZES.get(s);
      single[s] = Long.MAX_VALUE;
      twice[s] = Long.MAX_VALUE;
      for (int round = 0; round < ROUNDS; round++) {
        long begin = System.nanoTime();
        if (self.read(from, to, bytes) != 0) {
          return new Times(List.of(), List.of());
        }
        long middle = System.nanoTime();
        HostMemory.move(from, through, bytes);
        HostMemory.move(through, to, bytes);
        long end = System.nanoTime();
        single[s] = Math.min(single[s], middle - begin);
        twice[s] = Math.min(twice[s], end - middle);
      }
    }
    Reference.reachabilityFence(List.of(source, slot, target));
    return new Times(list(single), list(twice));
  }

  private static List<Long> list(long[] times) {
    return IntStream.range(0, times.length).mapToObj(s -> times[s]).toList();
  }
}
