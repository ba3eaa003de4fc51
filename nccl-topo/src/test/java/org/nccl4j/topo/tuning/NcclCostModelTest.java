package org.nccl4j.topo.tuning;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.TestMachines;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.TopologyException;

/** Costs grow with size, follow the settings, and are chosen cheapest first. */
class NcclCostModelTest {
  private static NcclCostModel costs(String name, int machines, Map<String, String> settings) {
    return TestMachines.cluster(name, machines, settings).costs();
  }

  @ParameterizedTest
  @MethodSource("org.nccl4j.topo.TestMachines#networked")
  void theCheapestIsChosen(String name) {
    NcclCostModel costs = costs(name, 2, Map.of());
    for (Operation collective : Operation.collectives()) {
      for (long bytes = 1; bytes <= 1L << 36; bytes *= 8) {
        Selection chosen = costs.select(collective, bytes).orElseThrow();
        assertTrue(chosen.micros() > 0);
        for (Algorithm algorithm : new Algorithm[] {Algorithm.RING, Algorithm.TREE}) {
          for (Protocol protocol : Protocol.values()) {
            float time = costs.time(collective, algorithm, protocol, bytes);
            assertTrue(time < 0 || time >= chosen.micros());
          }
        }
      }
    }
  }

  @Test
  void ringsTakeLongerWithMoreBytes() {
    NcclCostModel costs = costs("dgx-h100", 4, Map.of());
    for (Protocol protocol : Protocol.values()) {
      float before = 0;
      for (long bytes = 64; bytes <= 1L << 34; bytes *= 4) {
        float time = costs.time(Operation.ALL_GATHER, Algorithm.RING, protocol, bytes);
        assertTrue(time > before);
        before = time;
      }
    }
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "NCCL_ALGO | ring | RING",
        "NCCL_ALGO | ^ring | TREE",
        "NCCL_ALGO | Tree | TREE",
        "NCCL_ALGO | ring;allreduce:tree | TREE",
        "NCCL_ALGO | tree;allreduce:ring | RING",
        "NCCL_ALGO | ring,oneshot;sendrecv:CopyEngine | RING",
      })
  void algorithmsAreForced(String name, String value, Algorithm expected) {
    NcclCostModel costs = costs("dgx-a100", 2, Map.of(name, value));
    for (long bytes = 64; bytes <= 1L << 32; bytes *= 64) {
      assertEquals(expected, costs.select(Operation.ALL_REDUCE, bytes).orElseThrow().algorithm());
    }
  }

  /** An environment of jobs must not break ./nccl topo. */
  @Test
  void namesThatNcclDoesNotHaveChangeNothing() {
    NcclCostModel plain = costs("dgx-a100", 2, Map.of());
    NcclCostModel costs = costs("dgx-a100", 2, Map.of("NCCL_ALGO", "OneShot;all_to_all:^Rails"));
    for (long bytes = 64; bytes <= 1L << 32; bytes *= 64) {
      assertEquals(
          plain.select(Operation.ALL_REDUCE, bytes), costs.select(Operation.ALL_REDUCE, bytes));
    }
  }

  @Test
  void protocolsAreForced() {
    NcclCostModel costs = costs("dgx-h100", 2, Map.of("NCCL_PROTO", "^LL128;broadcast:LL"));
    for (long bytes = 64; bytes <= 1L << 32; bytes *= 64) {
      assertEquals(Protocol.LL, costs.select(Operation.BROADCAST, bytes).orElseThrow().protocol());
    }
    assertFalse(costs.cost(Operation.ALL_REDUCE, Algorithm.RING, Protocol.LL128).available());
  }

  @ParameterizedTest
  @ValueSource(strings = {"square", "allreduce:square", "all:ring", "ring,^tree"})
  void unknownNamesAreRefused(String value) {
    assertThrows(TopologyException.class, () -> costs("dgx-a100", 2, Map.of("NCCL_ALGO", value)));
  }

  @Test
  void smallOperationsGetFewChannelsAndThreads() {
    NcclCostModel costs = costs("dgx-a100", 2, Map.of());
    ChannelTuningModel tuning = ChannelTuningModel.of(costs.comm(), TopoSettings.defaults());
    ChannelTuning small = tuning.of(Algorithm.RING, Protocol.SIMPLE, 1024);
    ChannelTuning large = tuning.of(Algorithm.RING, Protocol.SIMPLE, 1L << 30);
    assertEquals(1, small.channels());
    assertEquals(costs.comm().nChannels(), large.channels());
    assertTrue(small.threads() < large.threads());
    assertEquals(640, tuning.of(Algorithm.TREE, Protocol.LL, 8).threads());
    int before = 0;
    for (long bytes = 8; bytes <= 1L << 30; bytes *= 2) {
      int channels = tuning.of(Algorithm.RING, Protocol.LL, bytes).channels();
      assertTrue(channels >= before);
      before = channels;
    }
  }
}
