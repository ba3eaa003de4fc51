package org.nccl4j.api.window;

import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;

/**
 * Windows that this rank has released, and that keep their addresses while another rank may use
 * them. At the next registration each rank names its released windows, so all learn which windows
 * every rank has released. There may be too many for one message; so that all ranks name the same
 * ones, they go through the windows' numbers together, in ascending order. Guarded by its owner.
 */
final class ReleasedWindows {
  private static final int MOST = 1000;

  private final int most;
  private final TreeMap<Long, RegisteredWindow> windows = new TreeMap<>();

  /** The first number that is said next; the same on all ranks. */
  private long from = Long.MIN_VALUE;

  ReleasedWindows() {
    this(MOST);
  }

  /** With so many numbers said at once. */
  ReleasedWindows(int most) {
    this.most = most;
  }

  void add(RegisteredWindow window) {
    windows.put(window.number(), window);
  }

  /** Returns the numbers that this rank sends. */
  List<Long> numbers() {
    return windows.tailMap(from, true).keySet().stream().limit(most).toList();
  }

  /** Takes out what all ranks have said; the same on all, in the same order. */
  List<RegisteredWindow> byAll(List<RegistrationMessage> all) {
    List<RegisteredWindow> done = new ArrayList<>();
    all.get(0).givenUp().stream()
        .filter(number -> all.stream().allMatch(rank -> rank.givenUp().contains(number)))
        .sorted()
        .forEach(number -> done.add(windows.remove(number)));
    from = next(all);
    return done;
  }

  /** Behind the numbers up to which all ranks have said what they have; else from the first. */
  private long next(List<RegistrationMessage> all) {
    return all.stream()
        .map(RegistrationMessage::givenUp)
        .filter(said -> said.size() >= most)
        .mapToLong(said -> said.get(said.size() - 1) + 1)
        .min()
        .orElse(Long.MIN_VALUE);
  }
}
