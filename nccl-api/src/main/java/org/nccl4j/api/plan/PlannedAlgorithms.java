package org.nccl4j.api.plan;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import org.nccl4j.operation.Algorithm;

/**
 * The algorithms of a communicator's calls that were planned last, and the bytes of its exchanges,
 * for reports. Threads that plan write them, once for each plan. Any thread.
 */
public final class PlannedAlgorithms {
  /** More than there are plans. */
  private static final int MOST = 4096;

  private final Map<Call, Algorithm> last =
      new LinkedHashMap<>() {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<Call, Algorithm> eldest) {
          return size() > MOST;
        }
      };

  /** The most bytes that exchanges with experts send for an element of a call, by its shape. */
  private final Map<Long, Double> elementBytes = new HashMap<>();

  private record Call(long shape, long count) {}

  /** Keeps the most bytes that an exchange sends for each element of calls of a shape. */
  public synchronized void putElementBytes(long shape, double most) {
    elementBytes.put(shape, most);
  }

  /** The most bytes for an element; 0 if that is not known. */
  public synchronized double elementBytes(long shape) {
    return elementBytes.getOrDefault(shape, 0.0);
  }

  /** Keeps the algorithm of a call's newest plan. */
  public synchronized void put(long shape, long count, Algorithm algorithm) {
    last.put(new Call(shape, count), algorithm);
  }

  /**
   * The algorithm of a call's newest plan; empty if it has none, or one that is long forgotten.
   *
   * @param shape as {@link org.nccl4j.device.kernel.CallShape} has it
   */
  public synchronized Optional<Algorithm> of(long shape, long count) {
    return Optional.ofNullable(last.get(new Call(shape, count)));
  }
}
