package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/** All-gather and reduce-scatter by parallel aggregated trees. */
@Timeout(600)
class PatTest {
  private static final CommunicatorConfig PAT =
      CommunicatorConfig.defaults().with("NCCL_ALGO", "PAT");

  @ParameterizedTest
  @CsvSource({"2, 300001", "3, 1", "4, 70001", "5, 777", "6, 33333", "7, 3", "8, 1000", "9, 20011"})
  void everyOperation(int n, int count) throws Exception {
    try (Ranks ranks = SeveralHosts.of(n, 1, PAT)) {
      assertPat(ranks, count);
      OperationsTest.everyOperation(ranks, count);
    }
  }

  /** Own elements are multiplied before, and sums divided after they are combined. */
  @Test
  void operatorsThatPrepareAndFinish() throws Exception {
    int n = 4;
    int count = 9001;
    try (Ranks ranks = SeveralHosts.of(n, 1, PAT)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory in = Ranks.floats(n * count, i -> comm.rank() + 1);
                DeviceMemory out = Ranks.floats(count, i -> -1)) {
              comm.reduceScatter(in, out, count, DataType.FLOAT32, RedOp.AVG, stream);
              expect(stream, out, 2.5f);
              var half = ReductionOperator.preMulSum(DataType.FLOAT32, 0.5);
              comm.reduceScatter(in, out, count, DataType.FLOAT32, half, stream);
              expect(stream, out, 5);
            }
          });
    }
  }

  private static void expect(DeviceStream stream, DeviceMemory memory, float value) {
    stream.synchronize();
    for (float each : Ranks.floats(memory)) {
      assertEquals(value, each);
    }
  }

  /** A letter is a host: ranks of one host exchange through its memory. */
  @ParameterizedTest
  @CsvSource({"AABB, 1000", "AAABB, 33333", "ABAB, 7", "AABBCC, 20011", "AAAAAAAB, 1"})
  void severalRanksAHost(String hosts, int count) throws Exception {
    try (Ranks ranks = Ranks.onHosts(hosts, PAT)) {
      assertPat(ranks, count);
      OperationsTest.everyOperation(ranks, count);
    }
  }

  @Test
  void oneHostHasItWhereItIsNamed() throws Exception {
    try (Ranks ranks = new Ranks(5, PAT)) {
      assertPat(ranks, 777);
      OperationsTest.everyOperation(ranks, 777);
    }
  }

  private static void assertPat(Ranks ranks, int count) {
    for (Operation collective : List.of(Operation.ALL_GATHER, Operation.REDUCE_SCATTER)) {
      assertEquals(
          Algorithm.PAT,
          ranks
              .communicators
              .get(0)
              .chosenAlgorithm(collective, count, DataType.FLOAT32)
              .algorithm());
    }
  }
}
