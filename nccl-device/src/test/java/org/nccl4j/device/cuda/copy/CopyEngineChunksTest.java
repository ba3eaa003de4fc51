package org.nccl4j.device.cuda.copy;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.RepetitionInfo;

/**
 * Messages cut into copies arrive whatever the ranks' pace, and nobody waits for ever, even if each
 * rank does all that it does in one order: simulated, with halves that hold bytes.
 */
class CopyEngineChunksTest {
  private static final int HALF = 4;

  /**
   * Words and halves from one rank to another, and what has been told and awaited at either end.
   */
  private static final class Way {
    private final int[] halves = new int[CopyEngineChunks.HALVES * HALF];
    private int filled;
    private int emptied;
    private int knownFilled;
    private int knownEmptied;
  }

  /** One step of a rank; false if it has to wait. */
  private interface Step {
    boolean tries();
  }

  private final List<int[]> sent = new ArrayList<>();
  private final List<int[]> got = new ArrayList<>();

  @RepeatedTest(200)
  void allArrivesAndNobodyWaitsForEver(RepetitionInfo repetition) {
    Random random = new Random(repetition.getCurrentRepetition());
    int n = 2 + random.nextInt(3);
    List<List<Step>> ranks = new ArrayList<>();
    for (int rank = 0; rank < n; rank++) {
      ranks.add(new ArrayList<>());
    }
    Way[][] ways = new Way[n][n];
    for (int operation = 0; operation < 3; operation++) {
      addGroup(random, ranks, ways);
    }
    run(random, ranks);
    for (int message = 0; message < sent.size(); message++) {
      assertArrayEquals(sent.get(message), got.get(message), "message " + message);
    }
    for (Way way : Arrays.stream(ways).flatMap(Arrays::stream).filter(w -> w != null).toList()) {
      assertEquals(way.filled, way.knownFilled, "what was told of is what was awaited");
      assertEquals(way.emptied, way.knownEmptied);
    }
  }

  /** The two ends of a pair may put the same messages into different operations. */
  @RepeatedTest(50)
  void theEndsNeedNotGroupAlike(RepetitionInfo repetition) {
    Random random = new Random(repetition.getCurrentRepetition());
    long[] messages = random.ints(5, 1, 20).asLongStream().toArray();
    Way way = new Way();
    int first = addData(random, messages);
    List<List<Step>> ends = List.of(new ArrayList<>(), new ArrayList<>());
    for (int end = 0; end < 2; end++) {
      for (int from = 0; from < messages.length; ) {
        int to = from + 1 + random.nextInt(messages.length - from);
        Lane lane = new Lane(end == 0, way, first + from, Arrays.copyOfRange(messages, from, to));
        lane.begin(ends.get(end));
        for (int round = 0; round < lane.rounds(); round++) {
          lane.add(round, ends.get(end));
        }
        from = to;
      }
    }
    run(random, ends);
    for (int message = 0; message < sent.size(); message++) {
      assertArrayEquals(sent.get(message), got.get(message), "message " + message);
    }
  }

  /** As CopyEngineP2pPlan queues it, with both directions in one queue. */
  private void addGroup(Random random, List<List<Step>> ranks, Way[][] ways) {
    int n = ranks.size();
    List<List<Lane>> lanes = new ArrayList<>();
    for (int rank = 0; rank < n; rank++) {
      lanes.add(new ArrayList<>());
    }
    for (int from = 0; from < n; from++) {
      for (int to = 0; to < n; to++) {
        if (from != to && random.nextInt(4) > 0) {
          if (ways[from][to] == null) {
            ways[from][to] = new Way();
          }
          long[] messages = random.ints(1 + random.nextInt(3), 1, 30).asLongStream().toArray();
          int first = addData(random, messages);
          lanes.get(from).add(new Lane(true, ways[from][to], first, messages));
          lanes.get(to).add(new Lane(false, ways[from][to], first, messages));
        }
      }
    }
    for (int rank = 0; rank < n; rank++) {
      List<Step> steps = ranks.get(rank);
      lanes.get(rank).forEach(lane -> lane.begin(steps));
      int rounds = lanes.get(rank).stream().mapToInt(Lane::rounds).max().orElse(0);
      for (int round = 0; round < rounds; round++) {
        for (boolean sends : new boolean[] {true, false}) {
          for (Lane lane : lanes.get(rank)) {
            if (lane.sends == sends && round < lane.rounds()) {
              lane.add(round, steps);
            }
          }
        }
      }
    }
  }

  private int addData(Random random, long[] messages) {
    int first = sent.size();
    for (long bytes : messages) {
      sent.add(random.ints(bytes).toArray());
      got.add(new int[(int) bytes]);
    }
    return first;
  }

  private static void run(Random random, List<List<Step>> ranks) {
    int[] at = new int[ranks.size()];
    int left = ranks.stream().mapToInt(List::size).sum();
    int stuck = 0;
    while (left > 0) {
      int rank = random.nextInt(ranks.size());
      if (at[rank] < ranks.get(rank).size() && ranks.get(rank).get(at[rank]).tries()) {
        at[rank]++;
        left--;
        stuck = 0;
      } else {
        assertFalse(stuck++ > 1000, () -> "all wait, at " + Arrays.toString(at));
      }
    }
  }

  /** One end of the messages from a rank to another. */
  private final class Lane {
    private final boolean sends;
    private final Way way;
    private final int first;
    private final CopyEngineChunks pieces;

    Lane(boolean sends, Way way, int first, long[] messages) {
      this.sends = sends;
      this.way = way;
      this.first = first;
      this.pieces = CopyEngineChunks.of(sends, messages, HALF);
    }

    int rounds() {
      return pieces.all().size() + 1;
    }

    void begin(List<Step> steps) {
      steps.add(() -> tell(pieces.begins()));
    }

    void add(int round, List<Step> steps) {
      if (round == pieces.all().size()) {
        steps.add(() -> await(pieces.ends()));
        return;
      }
      CopyEngineChunks.Piece piece = pieces.all().get(round);
      steps.add(() -> await(piece.awaited()));
      steps.add(() -> copy(piece));
      steps.add(() -> tell(piece.told()));
    }

    private boolean tell(int number) {
      if (sends) {
        way.filled += number;
      } else {
        way.emptied += number;
      }
      return true;
    }

    private boolean await(int number) {
      int told = sends ? way.emptied : way.filled;
      int known = sends ? way.knownEmptied : way.knownFilled;
      if (told < known + number) {
        return false;
      }
      if (sends) {
        way.knownEmptied += number;
      } else {
        way.knownFilled += number;
      }
      return true;
    }

    private boolean copy(CopyEngineChunks.Piece piece) {
      int slot = piece.half() * HALF;
      int message = first + piece.message();
      if (sends) {
        System.arraycopy(
            sent.get(message), (int) piece.at(), way.halves, slot, (int) piece.bytes());
      } else {
        System.arraycopy(way.halves, slot, got.get(message), (int) piece.at(), (int) piece.bytes());
        Arrays.fill(way.halves, slot, slot + HALF, -1); // whoever comes later finds it empty
      }
      return true;
    }
  }
}
