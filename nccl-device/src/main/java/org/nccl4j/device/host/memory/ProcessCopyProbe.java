package org.nccl4j.device.host.memory;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.nccl4j.device.DaemonThread;
import org.nccl4j.device.os.ThisProcess;

/**
 * Compares process_vm_readv with the two copies that take data through a slot. Which is faster
 * depends on the processor and the kernel: process_vm_readv looks up and pins every page, and a
 * slot's lines go from one core's cache to another's and back. So two threads of this process take
 * the parts of a sender and a receiver. Measured once in a process, in some milliseconds.
 */
public final class ProcessCopyProbe {
  /** The sizes that are measured. The largest is about a slot of Simple. */
  static final List<Integer> SIZES = List.of(32 << 10, 64 << 10, 128 << 10, 256 << 10);

  private static final int ROUNDS = 12;

  /**
   * A single copy may take so many times two copies' time and still be worth it: with slots the
   * ranks also wait for each other's words. Where both took the same time here, on a Xeon, ranks
   * gained up to 2.2 times by single copies; on an EPYC they take 1.5 to 2 times, and ranks lose.
   */
  private static final double WORTH = 1.2;

  /** Both threads need a core of their own; on a busy machine the measurement ends without one. */
  private static final long DEADLINE_NANOS = TimeUnit.MILLISECONDS.toNanos(200);

  private static final int SPINS = 1000;
  private static final int LINE = 64;

  private final int most = SIZES.get(SIZES.size() - 1);
  private final ByteBuffer source = ByteBuffer.allocateDirect(most);
  private final ByteBuffer slot = ByteBuffer.allocateDirect(most);
  private final ByteBuffer target = ByteBuffer.allocateDirect(most);
  private final long from = BufferViews.addressOf(source);
  private final long through = BufferViews.addressOf(slot);
  private final long to = BufferViews.addressOf(target);
  private final long end = System.nanoTime() + DEADLINE_NANOS;

  /**
   * Turns that both threads have taken, negative if there is no second processor; even ones are the
   * sender's.
   */
  private volatile int turn;

  /** The sender's last copy to the slot; written before its turn ends. */
  private long sentNanos;

  private ProcessCopyProbe() {}

  /** The outcome; a class of its own measures late. */
  private static final class Outcome {
    static final Times TIMES = new ProcessCopyProbe().measure();
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
          ? "process_vm_readv does not work, or there is no second core to measure it with"
          : String.format(
              Locale.ROOT,
              "%d bytes take %.1f us by process_vm_readv and %.1f us by two copies",
              SIZES.get(last),
              single.get(last) / 1e3,
              twice.get(last) / 1e3);
    }
  }

  /** The times of this process, measured at the first call. Any thread. */
  public static Times times() {
    return Outcome.TIMES;
  }

  private Times measure() {
    int here = Processors.current();
    DaemonThread.of(() -> sendFromElsewhere(here), "nccl4j copy probe").start();
    Times times = receive();
    turn = Integer.MAX_VALUE; // ends the sender
    return times;
  }

  /** On another processor than the receiver, who may be bound to one, and with it its threads. */
  private void sendFromElsewhere(int receiver) {
    if (Processors.leave(receiver)) {
      send();
    } else {
      turn = -1;
    }
  }

  /** Writes the source, and in each first turn of two also copies it to the slot. */
  private void send() {
    for (int round = 0; round < SIZES.size() * ROUNDS; round++) {
      int bytes = SIZES.get(round / ROUNDS);
      if (!await(4 * round)) {
        return;
      }
      write(bytes, round);
      long begin = System.nanoTime();
      HostMemory.move(from, through, bytes);
      sentNanos = System.nanoTime() - begin;
      turn = 4 * round + 1;
      if (!await(4 * round + 2)) {
        return;
      }
      write(bytes, round);
      turn = 4 * round + 3;
    }
  }

  private void write(int bytes, int round) {
    for (int at = 0; at < bytes; at += LINE) {
      source.put(at, (byte) (at + round));
    }
  }

  /** Copies from the slot in the first turn of two, and from the source in the second. */
  private Times receive() {
    ProcessMemory self = new ProcessMemory(ThisProcess.pid());
    long[] single = new long[SIZES.size()];
    long[] twice = new long[SIZES.size()];
    Arrays.fill(single, Long.MAX_VALUE);
    Arrays.fill(twice, Long.MAX_VALUE);
    for (int round = 0; round < SIZES.size() * ROUNDS; round++) {
      int s = round / ROUNDS;
      int bytes = SIZES.get(s);
      if (!await(4 * round + 1)) {
        return new Times(List.of(), List.of());
      }
      long begin = System.nanoTime();
      HostMemory.move(through, to, bytes);
      twice[s] = Math.min(twice[s], sentNanos + System.nanoTime() - begin);
      turn = 4 * round + 2;
      if (!await(4 * round + 3)) {
        return new Times(List.of(), List.of());
      }
      begin = System.nanoTime();
      if (self.read(from, to, bytes) != 0) {
        return new Times(List.of(), List.of());
      }
      single[s] = Math.min(single[s], System.nanoTime() - begin);
      turn = 4 * round + 4;
    }
    return new Times(list(single), list(twice));
  }

  /** Waits for a turn; false past the deadline or if the other thread has given up. */
  private boolean await(int wanted) {
    for (int spins = 0; turn < wanted; spins++) {
      if (spins < SPINS) {
        Thread.onSpinWait();
      } else if (turn < 0 || System.nanoTime() - end > 0) {
        return false;
      } else {
        Thread.yield();
      }
    }
    return turn == wanted;
  }

  private static List<Long> list(long[] times) {
    return IntStream.range(0, times.length).mapToObj(s -> times[s]).toList();
  }
}
