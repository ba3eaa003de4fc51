package org.nccl4j.topo;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.function.Supplier;

/** The processor's time, which other processes of a busy machine do not extend. */
public final class CpuTime {
  private CpuTime() {}

  /** Returns the result of work that must take less than this. */
  public static <T> T assertLess(Duration most, Supplier<T> work) {
    Duration before = soFar();
    T result = work.get();
    Duration taken = soFar().minus(before);
    assertTrue(taken.compareTo(most) < 0, taken + " of processor time");
    return result;
  }

  private static Duration soFar() {
    return ProcessHandle.current().info().totalCpuDuration().orElseThrow();
  }
}
