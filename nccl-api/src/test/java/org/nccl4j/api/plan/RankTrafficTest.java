package org.nccl4j.api.plan;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.kernel.Tree;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/** The bytes that ranks send each other are those that an operation needs. */
class RankTrafficTest {
  /** Two rings, one the other way round. */
  private static final List<int[]> RINGS = List.of(new int[] {0, 2, 1, 3}, new int[] {3, 1, 2, 0});

  private static final double WHOLE = 4000;

  private static RankTraffic rank(int rank) {
    return new RankTraffic(
        rank,
        4,
        RINGS,
        List.of(new Tree(1, List.of(2, 3)), new Tree(-1, List.of(1))),
        Set.of(0, 1, 2, 3));
  }

  private static double[] sent(int rank, Operation operation, Algorithm algorithm, int root) {
    return rank(rank).of(operation, algorithm, root, WHOLE).toRank();
  }

  /** Half over each ring: to rank 2 along the first, to rank 3 along the second. */
  @Test
  void ringsSendToTheNextRank() {
    double half = 2000;
    assertArrayEquals(
        new double[] {0, 0, 1.5 * half, 1.5 * half},
        sent(0, Operation.ALL_REDUCE, Algorithm.RING, 0));
    assertArrayEquals(
        new double[] {0, 0, 0.75 * half, 0.75 * half},
        sent(0, Operation.ALL_GATHER, Algorithm.RING, 0));
    // Nobody sends a broadcast back to its root, and the root of a reduction sends nothing.
    assertArrayEquals(
        new double[] {0, 0, 0, half}, sent(0, Operation.BROADCAST, Algorithm.RING, 2));
    assertArrayEquals(new double[4], sent(0, Operation.REDUCE, Algorithm.RING, 0));
    assertArrayEquals(
        new double[] {0, 0, half, half}, sent(0, Operation.REDUCE, Algorithm.RING, 2));
  }

  @Test
  void treesSendUpAndDown() {
    assertArrayEquals(
        new double[] {0, 4000, 2000, 2000}, sent(0, Operation.ALL_REDUCE, Algorithm.TREE, 0));
  }

  /** From a root, which leads the trees: here over rank 3 in the first and rank 1 in the second. */
  @Test
  void treesOfOneRootSendOneWay() {
    int[] first = {1, -1, 0, 0};
    int[] second = {-1, 0, 1, 1};
    RankTraffic zero =
        new RankTraffic(
            0,
            4,
            RINGS,
            List.of(
                new Tree(1, List.of(2, 3), of -> first[of]),
                new Tree(-1, List.of(1), of -> second[of])),
            Set.of(0));
    assertArrayEquals(
        new double[] {0, 2000, 2000, 0},
        zero.of(Operation.BROADCAST, Algorithm.TREE, 3, WHOLE).toRank());
    assertArrayEquals(
        new double[] {0, 2000, 0, 2000},
        zero.of(Operation.REDUCE, Algorithm.TREE, 3, WHOLE).toRank());
    assertArrayEquals(
        new double[] {0, 4000, 2000, 2000},
        zero.of(Operation.BROADCAST, Algorithm.TREE, 0, WHOLE).toRank());
    assertArrayEquals(new double[4], zero.of(Operation.REDUCE, Algorithm.TREE, 0, WHOLE).toRank());
  }

  /** All data to the switch and the own result's part; a part from it and all results. */
  @Test
  void theSwitchCombinesAndSpreads() {
    RankTraffic.Bytes sum = rank(1).of(Operation.ALL_REDUCE, Algorithm.NVLS, 0, WHOLE);
    assertEquals(5000, sum.toSwitch());
    assertEquals(5000, sum.fromSwitch());
    assertArrayEquals(new double[4], sum.toRank());
    RankTraffic.Bytes gather = rank(1).of(Operation.ALL_GATHER, Algorithm.DIRECT_NVLS, 0, WHOLE);
    assertEquals(1000, gather.toSwitch());
    assertEquals(4000, gather.fromSwitch());
    RankTraffic.Bytes scatter = rank(1).of(Operation.REDUCE_SCATTER, Algorithm.NVLS, 0, WHOLE);
    assertEquals(4000, scatter.toSwitch());
    assertEquals(1000, scatter.fromSwitch());
    RankTraffic.Bytes lines = rank(1).of(Operation.ALL_REDUCE, Algorithm.DIRECT_NVLS_LL, 0, WHOLE);
    assertEquals(4000, lines.toSwitch());
    assertEquals(16000, lines.fromSwitch());
  }

  /** Each rank gets as much as bus bandwidth counts, whatever the way. */
  @ParameterizedTest
  @ValueSource(ints = {2, 3, 8})
  void ranksGetWhatTheyNeed(int n) {
    int[] order = IntStream.range(0, n).toArray();
    Set<Integer> all = IntStream.range(0, n).boxed().collect(Collectors.toSet());
    for (Operation operation :
        List.of(Operation.ALL_REDUCE, Operation.ALL_GATHER, Operation.REDUCE_SCATTER)) {
      for (Algorithm algorithm :
          List.of(
              Algorithm.RING,
              operation == Operation.ALL_REDUCE ? Algorithm.TWO_SHOT : Algorithm.ONE_SHOT,
              operation == Operation.ALL_REDUCE
                  ? Algorithm.DIRECT_TWO_SHOT
                  : Algorithm.COPY_ENGINE_BATCH)) {
        double[] got = new double[n];
        for (int rank = 0; rank < n; rank++) {
          double[] to =
              new RankTraffic(rank, n, List.of(order), List.of(), all)
                  .of(operation, algorithm, 0, WHOLE)
                  .toRank();
          assertEquals(0, to[rank]);
          for (int peer = 0; peer < n; peer++) {
            got[peer] += to[peer];
          }
        }
        for (double bytes : got) {
          assertEquals(operation.busFactor(n) * WHOLE, bytes, 1e-6, operation + " " + algorithm);
        }
      }
    }
  }

  @Test
  void exchangesSendToEachOrToOne() {
    double part = WHOLE / 4;
    assertArrayEquals(
        new double[] {part, part, 0, part}, sent(2, Operation.ALL_TO_ALL, Algorithm.PAIRWISE, 0));
    assertArrayEquals(
        new double[] {0, part, 0, 0}, sent(2, Operation.GATHER, Algorithm.PAIRWISE, 1));
    assertArrayEquals(new double[4], sent(1, Operation.GATHER, Algorithm.PAIRWISE, 1));
    assertArrayEquals(
        new double[] {part, 0, part, part}, sent(1, Operation.SCATTER, Algorithm.PAIRWISE, 1));
    assertArrayEquals(
        new double[] {0, 0, 0, WHOLE}, sent(1, Operation.SEND, Algorithm.PAIRWISE, 3));
    assertArrayEquals(
        new double[] {WHOLE, 0, WHOLE, WHOLE},
        sent(1, Operation.BROADCAST, Algorithm.DIRECT_ONE_SHOT, 1));
    assertArrayEquals(
        new double[] {0, WHOLE, 0, 0}, sent(0, Operation.REDUCE, Algorithm.DIRECT_LL, 1));
  }

  /** Between two machines of two ranks: to the neighbour what both numbered alike have for it. */
  @Test
  void railsGiveTheOtherRanksOfTheMachineTheirParts() {
    RankTraffic two = new RankTraffic(0, 4, RINGS, List.of(), Set.of(0, 1));
    assertArrayEquals(
        new double[] {0, 2000, 0, 0},
        two.of(Operation.ALL_TO_ALL, Algorithm.RAILS, 0, WHOLE).toRank());
  }
}
