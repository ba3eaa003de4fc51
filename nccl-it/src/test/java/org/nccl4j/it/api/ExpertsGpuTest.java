package org.nccl4j.it.api;

import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.ExpertConfig;
import org.nccl4j.device.DataType;

/** Dispatch to experts and combine on all GPUs. Needs GPUs. */
@Tag("gpu")
@Timeout(120)
class ExpertsGpuTest {
  private static final long SEED = Long.getLong("seed", System.nanoTime());

  @Test
  void randomTokens() throws Exception {
    System.out.println("seed " + SEED);
    CommunicatorConfig config =
        CommunicatorConfig.defaults().withOperationDeadline(Duration.ofSeconds(30));
    try (Ranks ranks =
        new Ranks(Communicator.initAll(List.copyOf(Devices.cuda().list()), config))) {
      int experts = 4 * ranks.communicators.size();
      for (boolean fp8 : new boolean[] {false, true}) {
        ExpertConfig sizes = new ExpertConfig(33, 256, 3, experts, DataType.BFLOAT16, fp8);
        ranks.run((comm, stream) -> Experts.run(comm, stream, sizes, 6, SEED));
      }
    }
  }
}
