package org.nccl4j.api.window;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Windows that this rank has no more use for, and that stay mapped while another rank may. What all
 * ranks have given up is known when they next register something, since each then says what it has.
 * Guarded by its owner.
 */
final class GivenUp {
  /** What is said at once; the rest the next time. */
  private static final int MOST = 1000;

  private final Map<Long, RegisteredWindow> windows = new LinkedHashMap<>();

  void add(RegisteredWindow window) {
    windows.put(window.number(), window);
  }

  /** What this rank says. */
  List<Long> numbers() {
    return windows.keySet().stream().limit(MOST).toList();
  }

  /** Takes out what all ranks have said; the same on all, in the same order. */
  List<RegisteredWindow> byAll(List<Proposal> all) {
    List<RegisteredWindow> done = new ArrayList<>();
    all.get(0).givenUp().stream()
        .filter(number -> all.stream().allMatch(rank -> rank.givenUp().contains(number)))
        .sorted()
        .forEach(number -> done.add(windows.remove(number)));
    return done;
  }
}
