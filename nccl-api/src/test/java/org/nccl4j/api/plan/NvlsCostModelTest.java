package org.nccl4j.api.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.Algorithm;
import org.nccl4j.device.kernel.Collective;
import org.nccl4j.device.kernel.MulticastMemory;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.NvlsLayout;
import org.nccl4j.device.kernel.Protocol;

class NvlsCostModelTest {
  private static final int N = 8;

  private static CostModel costs(boolean emulated) {
    Nvls nvls =
        new Nvls(
            new NvlsLayout(N, 16, 128 << 10),
            List.of(0, 1, 2, 3, 4, 5, 6, 7),
            0,
            null,
            new MulticastMemory(emulated, List.of()));
    return new RankFacts(N, Device.Kind.CUDA, "NVIDIA H200", true, true).costs(nvls);
  }

  /** The figures of docs/nvls.md. */
  @Test
  void anAllReduceBy8GpusIsAsTheDocumentSays() {
    long bytes = 256 << 20;
    double micros =
        costs(false).microseconds(Collective.ALL_REDUCE, Algorithm.NVLS, Protocol.SIMPLE, bytes);
    assertEquals(988, micros, 2);
    assertEquals(475, bytes / micros / 1e3 * 2 * (N - 1) / N, 1);
  }

  /** By the switch large all-reduces take it; emulated it moves as much as a ring, with copies. */
  @ParameterizedTest
  @CsvSource({
    "false, 268435456, FLOAT32, SUM, NVLS",
    "false, 268435456, FLOAT32, MAX, TwoShot",
    "false, 1024, FLOAT32, SUM, OneShot",
    "true, 268435456, FLOAT32, SUM, TwoShot",
  })
  void theChoiceKnowsTypesAndForms(
      boolean emulated, long bytes, DataType type, RedOp op, String algorithm) {
    Choice choice =
        new Chooser(costs(emulated), "", "").choose(Collective.ALL_REDUCE, bytes, type, op);
    assertEquals(algorithm, choice.algorithm().label());
  }
}
