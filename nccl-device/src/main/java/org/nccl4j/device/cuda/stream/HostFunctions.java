package org.nccl4j.device.cuda.stream;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.nccl4j.device.bind.NativeFunction;
import org.nccl4j.device.cuda.driver.CudaLibrary;

/**
 * Functions of this process that streams call, on a thread of the driver's. The driver is given one
 * C function and a number for each. Any thread.
 */
public final class HostFunctions {
  private static final AtomicLong NUMBERS = new AtomicLong();
  private static final Map<Long, Entry> WAITING = new ConcurrentHashMap<>();

  private static final long CALLED = NativeFunction.callback(HostFunctions::call);

  /** Captured: a graph calls it at each of its launches, so it stays for as long as the graph. */
  private record Entry(Runnable function, boolean captured) {}

  private HostFunctions() {}

  /**
   * Has a stream call a function when what was launched before has ended.
   *
   * @param function must throw nothing
   * @param into the capture that the stream is in; null if it is in none of this library's. A
   *     function that another graph calls stays
   */
  public static void launch(
      long stream, Runnable function, CaptureRegistry.Capture into, Object place) {
    long number = NUMBERS.incrementAndGet();
    boolean captured = CudaLibrary.mayBeCapturing(stream, place);
    WAITING.put(number, new Entry(function, captured));
    try {
      CudaLibrary.launchHostFunction(stream, CALLED, number, place);
    } catch (RuntimeException e) {
      WAITING.remove(number);
      throw e;
    }
    if (into != null) {
      into.keep(number, () -> WAITING.remove(number));
    }
  }

  /** Returns the number of functions that the driver may still call. */
  public static int waiting() {
    return WAITING.size();
  }

  private static void call(long number) {
    Entry entry = WAITING.get(number);
    if (!entry.captured()) {
      WAITING.remove(number);
    }
    entry.function().run();
  }
}
