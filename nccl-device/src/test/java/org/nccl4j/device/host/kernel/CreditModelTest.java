package org.nccl4j.device.host.kernel;

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
 * A model of one connection of the host device (SendEnd, RecvEnd, LlLines, Ll128Slots) with few
 * slots, and so few bits of the step in LL's flags that they repeat: every order in which its two
 * ends can run is tried, for all endless sequences of steps by all protocols. No slot may be
 * overwritten before it was read or be read before it was written, and neither end may wait for
 * ever.
 */
class CreditModelTest {
  /** A protocol, and its number of slots. */
  private enum Step {
    /** In LL, so few bytes that it leaves a word of its slot as it was. */
    LL_SHORT(2, 1, true),
    LL_LONG(2, 2, true),
    /** In LL128, so few bytes that there are more slots than for the others. */
    LL128_SMALL(8, 1, true),
    LL128_LARGE(2, 1, true),
    SIMPLE(2, 1, false);

    final int slots;
    final int words;
    final boolean lazy;

    Step(int slots, int words, boolean lazy) {
      this.slots = slots;
      this.words = words;
      this.lazy = lazy;
    }

    boolean isLl() {
      return this == LL_SHORT || this == LL_LONG;
    }

    boolean sharesSlots(Step other) {
      return this == other || isLl() && other.isLl();
    }
  }

  private enum Fault {
    NONE,
    ONE_CREDIT_MORE,
    HEAD_TOO_SELDOM,
    LINES_NOT_CLEARED,
    LINES_CLEARED_AFTER_HEAD
  }

  private static final Step[] STEPS = Step.values();
  private static final int LL_SLOTS = Step.LL_SHORT.slots;
  private static final int LL_WORDS = Step.LL_LONG.words;

  /** The steps in LL's flags repeat after so many. */
  private static final int FLAGS = 4;

  /** Least common multiple of all that repeats. */
  private static final int PERIOD = 8;

  private static final int NEW = -1;
  private static final int UNKNOWN = -1;

  /** A state: the receiver's step; the sender's, head and kinds counted from that. */
  private static final int RECV = 0;

  private static final int SEND = 1;
  private static final int HEAD_BEHIND = 2;

  /** Words of the current step that the sender has written, and the receiver has read. */
  private static final int WRITTEN = 3;

  private static final int READ = 4;

  /** The end of the receiver's step: it has cleared lines and stored the head. */
  private static final int CLEARED = 5;

  private static final int TOLD = 6;
  private static final int KINDS = 7;
  private static final int AHEAD = 10;
  private static final int LINES = KINDS + AHEAD;

  private static final class Model {
    final Fault fault;
    final Set<String> seen = new HashSet<>();
    final Deque<byte[]> left = new ArrayDeque<>();
    int found;
    String wrong;

    Model(Fault fault) {
      this.fault = fault;
    }

    String run() {
      byte[] start = new byte[LINES + LL_SLOTS * LL_WORDS];
      Arrays.fill(start, KINDS, start.length, (byte) UNKNOWN);
      Arrays.fill(start, LINES, start.length, (byte) NEW);
      add(start);
      while (wrong == null && !left.isEmpty()) {
        byte[] state = left.pop();
        int before = found;
        send(state);
        receive(state);
        if (found == before && wrong == null) {
          wrong = "both ends wait in " + Arrays.toString(state);
        }
      }
      return wrong;
    }

    private void add(byte[] state) {
      found++;
      if (seen.add(new String(state, StandardCharsets.ISO_8859_1))) {
        left.push(state);
      }
    }

    private static int line(int step, int word) {
      return LINES + (step & LL_SLOTS - 1) * LL_WORDS + word;
    }

    /** Both ends make the same calls: the kind of a step is chosen by the first that needs it. */
    private boolean isChosen(byte[] state, int ahead) {
      if (state[KINDS + ahead] != UNKNOWN) {
        return true;
      }
      for (Step step : STEPS) {
        byte[] next = state.clone();
        next[KINDS + ahead] = (byte) step.ordinal();
        add(next);
      }
      return false;
    }

    private void send(byte[] state) {
      int ahead = state[SEND];
      if (!isChosen(state, ahead)) {
        return;
      }
      Step step = STEPS[state[KINDS + ahead]];
      int credit = step.slots + (fault == Fault.ONE_CREDIT_MORE ? 1 : 0);
      if (-state[HEAD_BEHIND] <= ahead - credit) {
        return;
      }
      checkOverwrite(state, ahead, step);
      byte[] next = state.clone();
      if (step.isLl()) { // the first word last
        int word = step.words - 1 - state[WRITTEN];
        next[line(state[RECV] + ahead, word)] = (byte) (state[RECV] + ahead & FLAGS - 1);
      }
      next[WRITTEN]++;
      if (next[WRITTEN] == step.words) {
        next[WRITTEN] = 0;
        next[SEND]++;
      }
      add(next);
    }

    private void checkOverwrite(byte[] state, int ahead, Step step) {
      for (int before = ahead - step.slots; before >= 0; before -= step.slots) {
        Step there = STEPS[state[KINDS + before]];
        boolean read = before == 0 && state[READ] == there.words;
        if (step.sharesSlots(there) && !read) {
          wrong = "a slot is overwritten before it is read in " + Arrays.toString(state);
        }
      }
    }

    private void receive(byte[] state) {
      if (!isChosen(state, 0)) {
        return;
      }
      Step step = STEPS[state[KINDS]];
      byte[] next = state.clone();
      if (state[READ] < step.words) {
        if (!isThere(state, step)) {
          return;
        }
        next[READ]++;
      } else if (state[CLEARED] == 0
          && (fault != Fault.LINES_CLEARED_AFTER_HEAD || state[TOLD] != 0)) {
        clear(next);
        next[CLEARED] = 1;
      } else if (state[TOLD] == 0) {
        tell(next, step);
      } else {
        goOn(next);
      }
      add(next);
    }

    /** True if the receiver finds its next word; in LL it sees only flags. */
    private boolean isThere(byte[] state, Step step) {
      boolean posted = state[SEND] > 0;
      if (!step.isLl()) {
        return posted;
      }
      int word = state[READ];
      if (state[line(state[RECV], word)] != (state[RECV] & FLAGS - 1)) {
        return false;
      }
      if (!posted && word < step.words - state[WRITTEN]) {
        wrong = "an old word is read in " + Arrays.toString(state);
      }
      return true;
    }

    /** At the last step that uses a slot before flags repeat. */
    private void clear(byte[] state) {
      int last = FLAGS - 1 & -LL_SLOTS;
      if (fault != Fault.LINES_NOT_CLEARED && (state[RECV] & last) == last) {
        int first = line(state[RECV], 0);
        Arrays.fill(state, first, first + LL_WORDS, (byte) NEW);
      }
    }

    private void tell(byte[] state, Step step) {
      int every = fault == Fault.HEAD_TOO_SELDOM ? 4 : 2;
      if (!step.lazy || (state[RECV] + 1 & every - 1) == 0) {
        state[HEAD_BEHIND] = -1;
      }
      state[TOLD] = 1;
    }

    private static void goOn(byte[] state) {
      state[RECV] = (byte) (state[RECV] + 1 & PERIOD - 1);
      state[SEND]--;
      state[HEAD_BEHIND]++;
      state[READ] = 0;
      state[CLEARED] = 0;
      state[TOLD] = 0;
      System.arraycopy(state, KINDS + 1, state, KINDS, AHEAD - 1);
      state[KINDS + AHEAD - 1] = UNKNOWN;
    }
  }

  @Test
  void noOrderOverwritesOrReadsTooEarlyOrStops() {
    assertEquals(null, new Model(Fault.NONE).run());
  }

  @Test
  void theModelSeesASlotTooMuch() {
    assertWrong(Fault.ONE_CREDIT_MORE, "overwritten");
  }

  @Test
  void theModelSeesHeadsThatAreStoredTooSeldom() {
    assertWrong(Fault.HEAD_TOO_SELDOM, "both ends wait");
  }

  @Test
  void theModelSeesFlagsThatRepeat() {
    assertWrong(Fault.LINES_NOT_CLEARED, "an old word");
  }

  @Test
  void theModelSeesLinesThatAreClearedTooLate() {
    assertWrong(Fault.LINES_CLEARED_AFTER_HEAD, "");
  }

  private static void assertWrong(Fault fault, String what) {
    String wrong = new Model(fault).run();
    assertTrue(wrong != null && wrong.contains(what), wrong);
  }
}
