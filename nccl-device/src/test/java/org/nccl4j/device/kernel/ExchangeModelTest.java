package org.nccl4j.device.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.connection.ConnectionLayout;

/**
 * A model of the exchange of steps that GPUs' kernels make (credit.cuh): every order in which the
 * threads of the ranks can run is tried, for all short sequences of kernels. No slot may be
 * overwritten before its step was read, and all ranks must end.
 *
 * <p>A mutual kernel sends and receives one or two steps with all peers and tells nobody that it
 * has taken them: a rank concludes it from what the peer sends next. A kernel of a small message
 * (p2p_small.cuh) tells at its begin what kernels before have taken, and at its end only if more
 * than two steps are untold. Other kernels tell every fourth step and at their end.
 */
class ExchangeModelTest {
  /** A kernel of all ranks, with its number of steps. */
  private enum Kernel {
    MUTUAL_ONE(Telling.NEVER, 1, false),
    MUTUAL_TWO(Telling.NEVER, 2, false),
    /** All send to all, and tell. */
    TOLD(Telling.AT_THE_END, 3, false),
    /** Rank 0 sends to the others, which send nothing. */
    ONE_WAY(Telling.AT_THE_END, 3, true),
    MESSAGE_OF_ONE(Telling.LATER, 1, true),
    MESSAGE_OF_TWO(Telling.LATER, 2, true),
    MESSAGE_OF_THREE(Telling.LATER, 3, true);

    final Telling telling;
    final int steps;
    final boolean oneWay;

    Kernel(Telling telling, int steps, boolean oneWay) {
      this.telling = telling;
      this.steps = steps;
      this.oneWay = oneWay;
    }

    boolean sends(int rank) {
      return !oneWay || rank == 0;
    }

    boolean receives(int rank) {
      return !oneWay || rank != 0;
    }

    boolean isMutual() {
      return telling == Telling.NEVER;
    }

    /**
     * The steps that a rank has told of at the end of this kernel, if it began with those before.
     */
    int told(int before, int received) {
      return switch (telling) {
        case NEVER -> before;
        case LATER -> received - before > MOST_UNTOLD ? received : before;
        case AT_THE_END -> received;
      };
    }
  }

  /** When a kernel tells which steps it has taken. */
  private enum Telling {
    NEVER,
    /** Those of kernels before at its begin; its own if there are many. */
    LATER,
    AT_THE_END
  }

  /** A rule by which a rank concludes that a peer has taken what it was sent. */
  private enum Conclusion {
    /** The peer's data of this kernel say that it has taken what was sent before this kernel. */
    BEFORE_THIS_KERNEL,
    /** Wrong: its threads may still be reading what was sent in this kernel. */
    WITH_THIS_KERNEL
  }

  private static final int THREADS = 2;
  private static final int MOST_UNTOLD = 2; // NCCL4J_UNTOLD_STEPS

  private record Rules(int ranks, int slots, Conclusion conclusion) {}

  /**
   * Positions of all threads: of rank r and thread t, the kernel at [3 * (2 r + t)], the steps that
   * it has sent in that, and received. A rank's threads enter the next kernel together.
   */
  private static final class Model {
    final Rules rules;
    final Kernel[] kernels;
    String violation;

    Model(Rules rules, Kernel... kernels) {
      this.rules = rules;
      this.kernels = kernels;
    }

    /** Explores all states; whether every rank always ends. */
    boolean run() {
      byte[] start = new byte[3 * rules.ranks * THREADS];
      Set<String> seen = new HashSet<>();
      Deque<byte[]> left = new ArrayDeque<>();
      left.push(start);
      seen.add(text(start));
      while (!left.isEmpty()) {
        byte[] state = left.pop();
        List<byte[]> next = next(state);
        if (violation != null || (next.isEmpty() && !ended(state))) {
          return false;
        }
        for (byte[] each : next) {
          if (seen.add(text(each))) {
            left.push(each);
          }
        }
      }
      return true;
    }

    /** Compares and hashes as the bytes, and much faster than their numbers would be written. */
    private static String text(byte[] state) {
      return new String(state, StandardCharsets.ISO_8859_1);
    }

    private boolean ended(byte[] state) {
      for (int at = 0; at < state.length; at += 3) {
        if (state[at] < kernels.length) {
          return false;
        }
      }
      return true;
    }

    private List<byte[]> next(byte[] state) {
      List<byte[]> next = new ArrayList<>();
      for (int rank = 0; rank < rules.ranks; rank++) {
        boolean allDone = true;
        for (int thread = 0; thread < THREADS; thread++) {
          int at = at(rank, thread);
          if (state[at] == kernels.length) {
            continue;
          }
          Kernel kernel = kernels[state[at]];
          boolean sends = kernel.sends(rank) && state[at + 1] < kernel.steps;
          boolean receives = kernel.receives(rank) && state[at + 2] < kernel.steps;
          // A thread sends a step before it receives that of the same number.
          if (sends
              && state[at + 1] <= state[at + 2] + (kernel.receives(rank) ? 0 : kernel.steps)) {
            if (hasCredit(state, rank, at)) {
              checkOverwrite(state, rank, thread);
              next.add(changed(state, at + 1));
            }
          } else if (receives && hasData(state, rank, thread)) {
            next.add(changed(state, at + 2));
          }
          allDone &= !sends && !receives;
        }
        if (allDone && state[at(rank, 0)] < kernels.length) {
          next.add(inNextKernel(state, rank));
        }
      }
      return next;
    }

    private static int at(int rank, int thread) {
      return 3 * (rank * THREADS + thread);
    }

    private static byte[] changed(byte[] state, int at) {
      byte[] changed = state.clone();
      changed[at]++;
      return changed;
    }

    private static byte[] inNextKernel(byte[] state, int rank) {
      byte[] changed = state.clone();
      for (int thread = 0; thread < THREADS; thread++) {
        int at = at(rank, thread);
        changed[at]++;
        changed[at + 1] = 0;
        changed[at + 2] = 0;
      }
      return changed;
    }

    /** The steps that a rank has sent in all kernels before one. */
    private int sent(int rank, int kernel) {
      int sent = 0;
      for (int k = 0; k < kernel; k++) {
        sent += kernels[k].sends(rank) ? kernels[k].steps : 0;
      }
      return sent;
    }

    /** The credit of a thread towards the peer that has told least. */
    private boolean hasCredit(byte[] state, int rank, int at) {
      int kernel = state[at];
      int number = sent(rank, kernel) + state[at + 1];
      for (int peer = 0; peer < rules.ranks; peer++) {
        if (peer == rank || !kernels[kernel].receives(peer)) {
          continue;
        }
        int known = Math.max(told(state, rank, peer), implied(rank, kernel));
        if (number - known >= rules.slots) {
          return false;
        }
      }
      return true;
    }

    /** The head word: what the peer's kernels that tell have told of this rank's steps. */
    private int told(byte[] state, int rank, int peer) {
      int there = state[at(peer, 0)];
      int told = 0;
      int received = 0;
      for (int k = 0; k <= there && k < kernels.length; k++) {
        if (!kernels[k].sends(rank) || !kernels[k].receives(peer)) {
          continue;
        }
        if (kernels[k].telling == Telling.LATER) {
          told = received;
        }
        if (k < there) {
          received += kernels[k].steps;
          told = kernels[k].told(told, received);
        }
      }
      return told;
    }

    /** Conclusions of the kernels before this one. */
    private int implied(int rank, int kernel) {
      for (int k = kernel - 1; k >= 0; k--) {
        if (kernels[k].isMutual()) {
          return sent(rank, rules.conclusion == Conclusion.BEFORE_THIS_KERNEL ? k : k + 1);
        }
      }
      return 0;
    }

    private boolean hasData(byte[] state, int rank, int thread) {
      int at = at(rank, thread);
      for (int peer = 0; peer < rules.ranks; peer++) {
        if (peer == rank || !kernels[state[at]].sends(peer)) {
          continue;
        }
        int theirs = at(peer, thread);
        int sent = sent(peer, state[theirs]) + state[theirs + 1];
        if (sent <= sent(peer, state[at]) + state[at + 2]) {
          return false;
        }
      }
      return true;
    }

    /** A line is overwritten: its reader must have read it. */
    private void checkOverwrite(byte[] state, int rank, int thread) {
      int at = at(rank, thread);
      int step = sent(rank, state[at]) + state[at + 1];
      for (int peer = 0; peer < rules.ranks; peer++) {
        int theirs = at(peer, thread);
        if (peer == rank || !kernels[state[at]].receives(peer)) {
          continue;
        }
        int read = state[theirs + 2] + sentTo(rank, peer, state[theirs]);
        if (step - read >= rules.slots) {
          violation =
              "rank %d overwrites step %d, which rank %d has not read, in %s"
                  .formatted(rank, step - rules.slots, peer, Arrays.toString(kernels));
        }
      }
    }

    private int sentTo(int rank, int peer, int kernel) {
      int sent = 0;
      for (int k = 0; k < kernel; k++) {
        sent += kernels[k].sends(rank) && kernels[k].receives(peer) ? kernels[k].steps : 0;
      }
      return sent;
    }
  }

  /** All sequences of so many of these kernels; why the first fails that does, or null. */
  private static String failing(Rules rules, int length, Kernel... all) {
    int sequences = (int) Math.pow(all.length, length);
    for (int n = 0; n < sequences; n++) {
      Kernel[] kernels = new Kernel[length];
      for (int k = 0, rest = n; k < length; k++, rest /= all.length) {
        kernels[k] = all[rest % all.length];
      }
      Model model = new Model(rules, kernels);
      if (!model.run()) {
        return model.violation == null
            ? "ranks wait for each other in " + Arrays.toString(kernels)
            : model.violation;
      }
    }
    return null;
  }

  /** Two steps that are not told, and three of a kernel that tells at its end. */
  private static final int FEWEST_SLOTS = 5;

  @Test
  void noOrderOfTwoRanksOverwritesOrStops() {
    for (int slots : new int[] {FEWEST_SLOTS, ConnectionLayout.STEPS}) {
      Rules rules = new Rules(2, slots, Conclusion.BEFORE_THIS_KERNEL);
      assertEquals(null, failing(rules, 4, Kernel.values()));
    }
  }

  @Test
  void noOrderOfThreeRanksOverwritesOrStops() {
    Rules rules = new Rules(3, FEWEST_SLOTS, Conclusion.BEFORE_THIS_KERNEL);
    assertEquals(null, failing(rules, 2, Kernel.values()));
  }

  /** The model sees that so few slots are not enough. */
  @Test
  void oneSlotLessIsTooFew() {
    Rules rules = new Rules(2, FEWEST_SLOTS - 1, Conclusion.BEFORE_THIS_KERNEL);
    String why = failing(rules, 3, Kernel.values());
    assertTrue(why != null && why.startsWith("ranks wait for each other"), why);
  }

  /** The model sees a conclusion that comes a kernel too soon. */
  @Test
  void theKernelOfTheDataSaysNothingOfItself() {
    Rules rules = new Rules(2, 1, Conclusion.WITH_THIS_KERNEL);
    String why = failing(rules, 2, Kernel.MUTUAL_ONE);
    assertTrue(why != null && why.contains("overwrites"), why);
  }
}
