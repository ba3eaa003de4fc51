package org.nccl4j.it.api;

import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Devices;
import org.nccl4j.device.Device;

/** On all GPUs. Needs GPUs. */
@Tag("gpu")
@Tag("two-gpus")
@Timeout(600)
class SharedSplitLifeGpuTest extends SharedSplitLife {
  private static final int ROUNDS = 30;

  @Override
  List<Device> devices() {
    return List.copyOf(Devices.cuda().list());
  }

  /** One round in about ten failed, or broke the driver's heap, while frees took no turns. */
  @Test
  void allRanksFreeAtTheSameTimeAgainAndAgain() {
    for (int round = 0; round < ROUNDS; round++) {
      whatGrowsSharesNothing();
    }
  }
}
