package org.nccl4j.api.window;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * Pairs of GPUs of one machine or clique that do not load from and store to each other's memory:
 * they cannot, their data arrived changed, or the settings forbid it. The same on all ranks.
 *
 * @param byRank those that a rank does not reach, by rank; empty if there are no such pairs
 */
public record UnreachedPairs(List<Set<Integer>> byRank) {
  /** All reach each other, as far as they are of one machine or clique. */
  public static final UnreachedPairs NONE = new UnreachedPairs(List.of());

  /** Copies the list. */
  public UnreachedPairs {
    byRank = byRank.stream().allMatch(Set::isEmpty) ? List.of() : List.copyOf(byRank);
  }

  /** True if one of two ranks does not reach the other. */
  boolean has(int one, int other) {
    return !areNone() && (byRank.get(one).contains(other) || byRank.get(other).contains(one));
  }

  /** True if there are no such pairs. */
  boolean areNone() {
    return byRank.isEmpty();
  }

  /** The pairs among some ranks, with new numbers. */
  public UnreachedPairs subset(List<Integer> ranks) {
    if (areNone()) {
      return this;
    }
    List<Set<Integer>> some = new ArrayList<>();
    for (int rank : ranks) {
      Set<Integer> theirs = new HashSet<>();
      for (int other = 0; other < ranks.size(); other++) {
        if (byRank.get(rank).contains(ranks.get(other))) {
          theirs.add(other);
        }
      }
      some.add(Set.copyOf(theirs));
    }
    return new UnreachedPairs(some);
  }
}
