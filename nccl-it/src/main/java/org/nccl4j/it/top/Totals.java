package org.nccl4j.it.top;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * The counters of one name, by labels. A counter is the sum of what communicators with its labels
 * have counted, those that are closed included, and never falls. It ends with its process. One
 * thread.
 */
final class Totals {
  private static final class Sum {
    final String process;
    double value;

    /** The count of each communicator when it was seen last. */
    final Map<Long, Double> last = new HashMap<>();

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
   */
  void take(String labels, String process, long communicator, double count) {
    Sum sum = sums.computeIfAbsent(labels, key -> new Sum(process));
    Double before = sum.last.put(communicator, count);
    // A communicator that was suspended and resumed begins anew.
    sum.value += before == null || count < before ? count : count - before;
  }

  /** Forgets the counters of other processes than these. */
  void keep(Set<String> processes) {
    sums.values().removeIf(sum -> !processes.contains(sum.process));
  }

  /** The counters by labels. */
  Map<String, Double> values() {
    Map<String, Double> values = new LinkedHashMap<>();
    sums.forEach((labels, sum) -> values.put(labels, sum.value));
    return values;
  }
}
