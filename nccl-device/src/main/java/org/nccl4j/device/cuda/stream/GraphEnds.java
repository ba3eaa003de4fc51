package org.nccl4j.device.cuda.stream;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.nccl4j.device.bind.NativeFunction;
import org.nccl4j.device.cuda.driver.CaptureLibrary;
import org.nccl4j.device.cuda.driver.Gpu;

/**
 * The ends of graphs: a graph has ended when it, the executable graphs that were made of it, and
 * all their launches have. The driver is given one C function and a number for each graph. Any
 * thread.
 */
final class GraphEnds {
  private static final AtomicLong NUMBERS = new AtomicLong();
  private static final Map<Long, Runnable> AWAITED = new ConcurrentHashMap<>();
  private static final long CALLED = NativeFunction.callback(GraphEnds::ended);

  private GraphEnds() {}

  /**
   * Has something run when a graph has ended.
   *
   * @param graph of which nothing was made yet; after an error its owner destroys it
   * @param action must neither wait nor throw, nor call the driver, whose thread runs it
   */
  static void await(long graph, Runnable action, Gpu gpu) {
    long number = NUMBERS.incrementAndGet();
    AWAITED.put(number, action);
    try {
      CaptureLibrary.callAtEnd(graph, CALLED, number, gpu);
    } catch (RuntimeException e) {
      ended(number);
      throw e;
    }
  }

  private static void ended(long number) {
    Runnable action = AWAITED.remove(number);
    if (action != null) {
      action.run();
    }
  }
}
