package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.device.Device;
import org.nccl4j.device.cuda.CudaDevice;

/** On all GPUs. Needs GPUs. */
@Tag("gpu")
@Timeout(600)
class VariablePartsGpuTest extends VariableParts {
  /** The driver takes and gives back memory in pages of this size. */
  private static final long PAGE = 2 << 20;

  @Override
  List<Device> devices() {
    return List.copyOf(Devices.cuda().list());
  }

  @Override
  int rounds() {
    return Integer.getInteger("rounds", 150);
  }

  @Override
  int mostElements() {
    return 60_000;
  }

  /**
   * Plans of more sends than a launch's arguments hold have tables on the GPU: those of a group of
   * forty do with two ranks and more. No other program may take memory of the GPUs meanwhile.
   */
  @ParameterizedTest
  @ValueSource(ints = {1, 40})
  void aHundredThousandChangingCountsHoldNoMoreAndMoreMemory(int together) throws Exception {
    CommunicatorConfig config =
        CommunicatorConfig.defaults().withOperationTimeout(Duration.ofSeconds(30));
    try (Ranks ranks = new Ranks(Communicator.initAll(devices(), config))) {
      // More groups than the cache of plans has places, so that it is full.
      exchange(ranks, new Calls(0, 2_000 * together, together));
      long heldBefore = held(ranks);
      List<Long> freeBefore = free();
      exchange(ranks, new Calls(2_000 * together, 100_000 + 2_000 * together, together));
      List<Long> freeAfter = free();
      for (int gpu = 0; gpu < freeBefore.size(); gpu++) {
        long taken = freeBefore.get(gpu) - freeAfter.get(gpu);
        assertTrue(taken <= PAGE, "GPU " + gpu + " has " + taken + " bytes less");
      }
      long held = held(ranks) - heldBefore;
      assertTrue(held <= PAGE * ranks.communicators.size(), "plans hold " + held + " bytes more");
    }
  }

  private static long held(Ranks ranks) {
    return ranks.communicators.stream()
        .flatMap(comm -> comm.memory().values().stream())
        .mapToLong(Long::longValue)
        .sum();
  }

  private List<Long> free() {
    return devices().stream().map(device -> ((CudaDevice) device).memoryInfo()[0]).toList();
  }
}
