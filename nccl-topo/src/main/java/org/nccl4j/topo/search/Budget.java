package org.nccl4j.topo.search;

/** The remaining steps of a search. Steps, not time: results must not depend on the clock. */
final class Budget {
  private int left;
  private boolean perfect;

  Budget(int steps) {
    left = steps;
  }

  /** Uses up a step; false if there is none left. */
  boolean step() {
    if (left <= 0) {
      return false;
    }
    left--;
    return true;
  }

  /** Ends the search: nothing better can be found. */
  void perfect() {
    left = 0;
    perfect = true;
  }

  boolean isPerfect() {
    return perfect;
  }

  /** True if the search ended because the steps were used up. */
  boolean isUsedUp() {
    return left == 0 && !perfect;
  }

  int left() {
    return left;
  }
}
