package org.nccl4j.it.top;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * The counters of one name, by labels. A counter is the sum of what communicators with its labels
 * have counted, those that are closed included, and never falls. It ends with its process, or some
 * time after the last of its communicators. One thread.
 */
final class Totals {
  private record Last(double count, long millis) {}

  private static final class Sum {
    final String process;
    double value;

    /** Each communicator when it was seen last. */
    final Map<Long, Last> last = new HashMap<>();

    Sum(String process) {
      this.process = process;
    }
  }

  private final Map<String, Sum> sums = new TreeMap<>();

  /**
   * Takes a communicator's count.
   *
   * @param labels of the counter
   * @param process that it ends with
   * @param communicator its number
   * @param count all that it has counted so far
   * @param millis time of the frame
   */
  void take(String labels, String process, long communicator, double count, long millis) {
    Sum sum = sums.computeIfAbsent(labels, key -> new Sum(process));
    Last before = sum.last.put(communicator, new Last(count, millis));
    // A communicator that was suspended and resumed begins anew.
    sum.value += before == null || count < before.count ? count : count - before.count;
  }

  /**
   * Forgets the counters of other processes than these, and communicators that were seen last
   * before a time.
   */
  void keep(Set<String> processes, long millis) {
    sums.values().forEach(sum -> sum.last.values().removeIf(last -> last.millis < millis));
    sums.values().removeIf(sum -> !processes.contains(sum.process) || sum.last.isEmpty());
  }

  /** The counters by labels. */
  Map<String, Double> values() {
    Map<String, Double> values = new LinkedHashMap<>();
    sums.forEach((labels, sum) -> values.put(labels, sum.value));
    return values;
  }
}
