package org.nccl4j.it.perf.workload;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

final class WorkloadTest {
  /** nccl-tests' formulas, worked out by hand for 1 MiB of floats. */
  @ParameterizedTest
  @CsvSource({
    "ALL_REDUCE,     4, 262144, 1048576, 1.5",
    "ALL_GATHER,     4, 65536,  1048576, 0.75",
    "REDUCE_SCATTER, 4, 65536,  1048576, 0.75",
    "BROADCAST,      4, 262144, 1048576, 1",
    "REDUCE,         4, 262144, 1048576, 1",
    "ALL_TO_ALL,     4, 65536,  1048576, 0.75",
    "GATHER,         4, 65536,  1048576, 0.75",
    "SCATTER,        4, 65536,  1048576, 0.75",
    "SEND_RECV,      4, 262144, 1048576, 1",
    "HYPERCUBE,      4, 65536,  786432,  1",
    "ALL_REDUCE,     1, 262144, 1048576, 0",
    "ALL_REDUCE,     2, 262144, 1048576, 1"
  })
  void bandwidthFormulas(
      Workload workload, int nRanks, long count, double bytes, double busFactor) {
    Layout layout = workload.layout(262144, nRanks);
    assertEquals(count, layout.count());
    assertEquals(bytes, workload.algorithmBytes(layout, nRanks, 4));
    assertEquals(busFactor, workload.busFactor(nRanks));
  }

  @Test
  void variableCountsAreTheSameSeenFromBothSides() {
    int nRanks = 5;
    long mean = 1001;
    for (int rank = 0; rank < nRanks; rank++) {
      assertTrue(VariableCounts.sendOffset(rank, nRanks, nRanks, mean) <= nRanks * mean);
      assertTrue(VariableCounts.recvOffset(nRanks, rank, nRanks, mean) <= nRanks * mean);
    }
    assertEquals(mean / 2, VariableCounts.between(2, 3, nRanks, mean));
    assertEquals(mean / 2 + mean, VariableCounts.between(2, 2, nRanks, mean));
  }

  /** Expected ranges must be inside the buffer, not overlap, and exist at their source. */
  @ParameterizedTest
  @EnumSource(Workload.class)
  void expectedSegmentsAreSound(Workload workload) {
    for (int nRanks = 1; nRanks <= 8; nRanks++) {
      Layout layout = workload.layout(1003, nRanks);
      for (int rank = 0; rank < nRanks; rank++) {
        boolean[] seen = new boolean[(int) layout.recv()];
        for (Segment segment : workload.expected(layout, new Place(rank, nRanks, nRanks - 1))) {
          assertTrue(segment.from() + segment.count() <= layout.send(), segment.toString());
          assertTrue(segment.source() < nRanks);
          for (long i = segment.at(); i < segment.at() + segment.count(); i++) {
            assertTrue(!seen[(int) i], workload + " expects element " + i + " twice");
            seen[(int) i] = true;
          }
        }
      }
    }
  }

  @Test
  void hypercubeNeedsAPowerOfTwo() {
    assertEquals("", Workload.HYPERCUBE.refusal(8));
    assertTrue(Workload.HYPERCUBE.refusal(6).contains("6"));
    assertTrue(Arrays.stream(Workload.values()).filter(w -> !w.refusal(3).isEmpty()).count() == 1);
  }
}
