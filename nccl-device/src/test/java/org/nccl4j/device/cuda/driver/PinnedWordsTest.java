package org.nccl4j.device.cuda.driver;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.bind.NativeWords;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaDevices;
import org.nccl4j.device.cuda.GpuRanks;

/** Pinned memory that the driver does not give whole, which must not stay. */
class PinnedWordsTest extends AgainstFakeCuda {
  private static final String ADDRESS = "cuMemHostGetDevicePointer_v2";

  @Test
  void memoryWithoutAnAddressOnTheDeviceIsFreed() {
    Gpu gpu = CudaDevices.probe().list().get(0).gpu();
    try (PinnedWords words = PinnedWords.allocate(gpu, 64)) {
      assertEquals(0, new NativeWords(words.host()).getLong(56));
    }
    fake.fakeFail(ADDRESS, 2);
    assertThrows(CudaException.class, () -> PinnedWords.allocate(gpu, 64));
  }

  @Test
  void aCommunicatorThatIsNotMadeLeavesNothing() {
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3))) {
      CudaDevice device = ranks.devices.get(1);
      fake.fakeFail(ADDRESS, 2);
      assertThrows(CudaException.class, () -> device.createKernelCommunicator(ranks.spec));
    }
  }
}
