package org.nccl4j.device.host.memory;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.CopyTimes;
import org.nccl4j.device.os.ThisProcess;
import org.nccl4j.device.support.DaemonThread;

/**
 * Compares process_vm_readv with the two copies that take data through a slot. Which is faster
 * depends on the processor and the kernel: process_vm_readv looks up and pins every page, and a
 * slot's lines go from one core's cache to another's and back. So two threads of this process take
 * the parts of a sender and a receiver. Measured in some milliseconds, at most once in a process.
 */
public final class ProcessCopyProbe {
  private static final List<Integer> SIZES = CopyTimes.SIZES;
  private static final int ROUNDS = 12;

  /** Both threads need a core of their own; on a busy machine the measurement ends without one. */
  private static final long DEADLINE_NANOS = TimeUnit.MILLISECONDS.toNanos(200);

  private static final int SPINS = 1000;
  private static final int LINE = 64;

  /** Null before the first call; guarded by the class. */
  private static CopyTimes known;

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

  /**
   * The times of this machine: of this process's first call, which takes them from a store or
   * measures and keeps them there. Any thread.
   */
  public static synchronized CopyTimes times(CopyTimes.Store store) {
    if (known == null) {
      known = find(store, () -> new ProcessCopyProbe().measure());
    }
    return known;
  }

  /**
   * Times that a store has, or else those of a measurement, which it is to keep. Times that are due
   * are measured again.
   */
  static CopyTimes find(CopyTimes.Store store, Supplier<CopyTimes> measurement) {
    Optional<CopyTimes.Kept> kept = store.find();
    if (kept.isPresent() && !kept.get().isDue()) {
      return kept.get().times();
    }
    CopyTimes measured = measurement.get();
    return measured.isMeasured()
        ? store.keep(measured)
        : kept.map(CopyTimes.Kept::times).orElse(measured);
  }

  private CopyTimes measure() {
    int here = Processors.current();
    DaemonThread.of(() -> sendFromElsewhere(here), "nccl4j copy probe").start();
    CopyTimes times = receive();
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
  private CopyTimes receive() {
    ProcessMemory self = new ProcessMemory(ThisProcess.pid());
    long[] single = new long[SIZES.size()];
    long[] twice = new long[SIZES.size()];
    Arrays.fill(single, Long.MAX_VALUE);
    Arrays.fill(twice, Long.MAX_VALUE);
    for (int round = 0; round < SIZES.size() * ROUNDS; round++) {
      int s = round / ROUNDS;
      int bytes = SIZES.get(s);
      if (!await(4 * round + 1)) {
        return CopyTimes.NONE;
      }
      long begin = System.nanoTime();
      HostMemory.move(through, to, bytes);
      twice[s] = Math.min(twice[s], sentNanos + System.nanoTime() - begin);
      turn = 4 * round + 2;
      if (!await(4 * round + 3)) {
        return CopyTimes.NONE;
      }
      begin = System.nanoTime();
      if (self.read(from, to, bytes) != 0) {
        return CopyTimes.NONE;
      }
      single[s] = Math.min(single[s], System.nanoTime() - begin);
      turn = 4 * round + 4;
    }
    return new CopyTimes(list(single), list(twice));
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
