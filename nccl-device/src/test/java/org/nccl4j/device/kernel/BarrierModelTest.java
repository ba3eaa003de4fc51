package org.nccl4j.device.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashSet;
import java.util.Set;
import org.junit.jupiter.api.Test;

/**
 * A model of the barriers between direct kernels of GPUs (direct.cuh): every order in which the
 * ranks can run is tried, for all endless sequences of kernels, with so few bits for a kernel's
 * number that it wraps. No rank may pass a barrier of a block before all others have come to it,
 * and no rank may wait for ever.
 *
 * <p>It is one block's barriers. Kernels may have that block or not; a rank ends a kernel without
 * it once all others have begun that, since their first blocks meet.
 */
class BarrierModelTest {
  /** A kernel's use of the block. */
  private enum Kernel {
    BEGIN_AND_END,
    BEGIN_ONLY,
    /** It has fewer blocks: the flags of this one grow old. */
    WITHOUT
  }

  /** True if the found flag stands for the awaited one. */
  private enum Rule {
    /** As the kernels do: that one, or one or two ahead, but not what new memory holds. */
    TWO_AHEAD {
      @Override
      boolean passes(int found, int value, int words) {
        int ahead = found - value & words - 1;
        return found != NEW && ahead <= 2;
      }
    },
    /** Wrong: half of all old flags are ahead. */
    NOT_BEHIND {
      @Override
      boolean passes(int found, int value, int words) {
        return (lower(found) - value & words - 1) < words / 2;
      }
    },
    /** Wrong: one who comes next may have told of the kernel after before it is looked at. */
    ONE_AHEAD {
      @Override
      boolean passes(int found, int value, int words) {
        return found != NEW && (found - value & words - 1) <= 1;
      }
    },
    /** Wrong: new memory holds 0, which is ahead of the last numbers. */
    NEW_MEMORY_TOO {
      @Override
      boolean passes(int found, int value, int words) {
        return (lower(found) - value & words - 1) <= 2;
      }
    };

    abstract boolean passes(int found, int value, int words);

    static int lower(int found) {
      return found == NEW ? 0 : found;
    }
  }

  /**
   * In place of a flag: nobody has written it. Its lower half is 0, and no call's is above that.
   */
  private static final int NEW = 127;

  /** Ranks are at most so many kernels apart, this one included. */
  private static final int WINDOW = 3;

  /** Where a thread of a rank is, which meets one other rank; between these it has told it. */
  private static final int CAME = 0;

  private static final int SEEN = 2;

  private static final int AT_BEGIN = 0;
  private static final int AT_END = 1;

  /**
   * A state is: [0] the number of the first rank's kernel behind which nobody is; [1] kernels since
   * the block was used, or UNUSED; [2..] kinds of the kernels from that number on, or UNKNOWN; then
   * for each rank its kernel, counted from that number, and its barrier; for each thread where it
   * is; for each flag its value.
   */
  private record Model(int ranks, int bits, int longest, Rule rule) {
    static final int UNKNOWN = -1;
    static final int UNUSED = -1;
    static final int KINDS = 2;
    static final int PLACES = KINDS + WINDOW;

    int words() {
      return 1 << bits;
    }

    int thread(int rank, int other) {
      return PLACES + 2 * ranks + rank * ranks + other;
    }

    /** The flag of one rank that another has written. */
    int flag(int of, int writer) {
      return PLACES + 2 * ranks + ranks * ranks + of * ranks + writer;
    }

    int kernel(int rank) {
      return PLACES + 2 * rank;
    }

    int barrier(int rank) {
      return PLACES + 2 * rank + 1;
    }

    byte[] start() {
      byte[] start = new byte[PLACES + 2 * ranks + 2 * ranks * ranks];
      start[0] = 1;
      start[1] = UNUSED;
      Arrays.fill(start, KINDS, KINDS + WINDOW, (byte) UNKNOWN);
      Arrays.fill(start, flag(0, 0), start.length, (byte) NEW);
      return start;
    }

    /** Tries all orders of all sequences; what went wrong, or null. */
    String run() {
      Search search = new Search(this);
      search.add(start());
      while (search.wrong == null && !search.left.isEmpty()) {
        byte[] state = search.left.pop();
        int before = search.found;
        for (int rank = 0; rank < ranks; rank++) {
          step(state, rank, search);
        }
        if (search.found == before && search.wrong == null) {
          search.wrong = "ranks wait for each other in " + Arrays.toString(state);
        }
      }
      return search.wrong;
    }

    private void step(byte[] state, int rank, Search search) {
      int at = state[kernel(rank)];
      if (at == WINDOW) {
        search.wrong = "rank " + rank + " is too far ahead in " + Arrays.toString(state);
      } else if (state[KINDS + at] == UNKNOWN) {
        choose(state, at, search);
      } else {
        boolean ended = true;
        for (int other = 0; other < ranks; other++) {
          if (other != rank && state[thread(rank, other)] != SEEN) {
            ended = false;
            meet(state, rank, other, search);
          }
        }
        if (ended) {
          pass(state, rank, search);
        }
      }
    }

    private void choose(byte[] state, int at, Search search) {
      for (Kernel kernel : Kernel.values()) {
        boolean without = kernel == Kernel.WITHOUT;
        if (without && state[1] == longest) {
          continue;
        }
        byte[] next = state.clone();
        next[KINDS + at] = (byte) kernel.ordinal();
        next[1] = (byte) (!without ? 0 : state[1] == UNUSED ? UNUSED : state[1] + 1);
        search.add(next);
      }
    }

    private int value(byte[] state, int rank) {
      return 2 * (state[0] + state[kernel(rank)]) + state[barrier(rank)] & words() - 1;
    }

    /** One thread goes on: tells the other rank, or sees its flag. */
    private void meet(byte[] state, int rank, int other, Search search) {
      byte[] next = state.clone();
      int thread = thread(rank, other);
      boolean has = state[KINDS + state[kernel(rank)]] != Kernel.WITHOUT.ordinal();
      next[thread]++;
      if (state[thread] == CAME) {
        if (has) {
          next[flag(other, rank)] = (byte) value(state, rank);
        }
        search.add(next);
      } else if (!has) {
        if (hasCome(state, other, rank)) {
          search.add(next);
        }
      } else if (rule.passes(state[flag(rank, other)], value(state, rank), words())) {
        if (!hasCome(state, other, rank)) {
          search.wrong =
              "rank %d passes without %d in %s".formatted(rank, other, Arrays.toString(state));
        }
        search.add(next);
      }
    }

    /** True if a rank has signalled the other rank's current barrier. */
    private boolean hasCome(byte[] state, int rank, int other) {
      int ahead =
          2 * (state[kernel(rank)] - state[kernel(other)])
              + state[barrier(rank)]
              - state[barrier(other)];
      return ahead > 0 || ahead == 0 && state[thread(rank, other)] != CAME;
    }

    /** All threads of a rank have met: it goes on to the next barrier. */
    private void pass(byte[] state, int rank, Search search) {
      byte[] next = state.clone();
      boolean ends = state[KINDS + state[kernel(rank)]] == Kernel.BEGIN_AND_END.ordinal();
      if (ends && state[barrier(rank)] == AT_BEGIN) {
        next[barrier(rank)] = AT_END;
      } else {
        next[barrier(rank)] = AT_BEGIN;
        next[kernel(rank)]++;
      }
      Arrays.fill(next, thread(rank, 0), thread(rank, 0) + ranks, (byte) CAME);
      search.add(next);
    }

    /** Counts kernels from the first that a rank is in. */
    void shift(byte[] state) {
      for (int rank = 0; rank < ranks; rank++) {
        if (state[kernel(rank)] == 0) {
          return;
        }
      }
      for (int rank = 0; rank < ranks; rank++) {
        state[kernel(rank)]--;
      }
      state[0] = (byte) (state[0] + 1 & words() / 2 - 1);
      System.arraycopy(state, KINDS + 1, state, KINDS, WINDOW - 1);
      state[KINDS + WINDOW - 1] = UNKNOWN;
    }
  }

  /** States that were found, and those from which no step was tried yet. */
  private static final class Search {
    final Model model;
    final Set<String> seen = new HashSet<>();
    final Deque<byte[]> left = new ArrayDeque<>();

    /** Steps that were found, also those to states that were known. */
    int found;

    String wrong;

    Search(Model model) {
      this.model = model;
    }

    void add(byte[] state) {
      found++;
      model.shift(state);
      if (seen.add(new String(state, StandardCharsets.ISO_8859_1))) {
        left.push(state);
      }
    }
  }

  /** A flag may be so old, in kernels: one older, and it is two ahead of the awaited one. */
  private static int oldest(int bits) {
    return (1 << bits - 1) - 2;
  }

  private static String wrong(int ranks, int bits, int oldest, Rule rule) {
    return new Model(ranks, bits, oldest - 1, rule).run();
  }

  @Test
  void noOrderOfTwoRanksPassesEarlyOrStops() {
    for (int bits = 3; bits <= 5; bits++) {
      assertEquals(null, wrong(2, bits, oldest(bits), Rule.TWO_AHEAD));
    }
  }

  @Test
  void noOrderOfThreeRanksPassesEarlyOrStops() {
    assertEquals(null, wrong(3, 3, oldest(3), Rule.TWO_AHEAD));
  }

  /** The model sees the flag that is as old as all numbers: of 2^31 - 1 kernels in the kernels. */
  @Test
  void olderFlagsPass() {
    String why = wrong(2, 4, oldest(4) + 1, Rule.TWO_AHEAD);
    assertTrue(why != null && why.contains("passes without"), why);
  }

  /** The model sees flags of blocks that no kernel had for half of all numbers. */
  @Test
  void oldFlagsMustNotCountAsAhead() {
    String why = wrong(2, 4, oldest(4), Rule.NOT_BEHIND);
    assertTrue(why != null && why.contains("passes without"), why);
  }

  /** The model sees a rank that is not seen any more because it has gone on. */
  @Test
  void theNextKernelsFlagCounts() {
    String why = wrong(2, 4, oldest(4), Rule.ONE_AHEAD);
    assertTrue(why != null && why.startsWith("ranks wait for each other"), why);
  }

  @Test
  void newMemoryDoesNotCount() {
    String why = wrong(2, 4, oldest(4), Rule.NEW_MEMORY_TOO);
    assertTrue(why != null && why.contains("passes without"), why);
  }
}
