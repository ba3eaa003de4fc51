package org.nccl4j.device.cuda.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaDevices;
import org.nccl4j.device.cuda.FakeCuda;
import org.nccl4j.device.cuda.FakeLibrary;
import org.nccl4j.device.support.Patience;

/** Allocations on devices with little memory, with the recording driver. */
@Timeout(600)
class ScarceMemoryTest {
  private static final int BLOCK = 2 << 20;

  private FakeLibrary fake;
  private CudaDevice device;

  @BeforeEach
  void start() {
    fake = FakeCuda.get();
    device = CudaDevices.probe().device(0);
  }

  @AfterEach
  void reset() {
    if (fake != null) {
      fake.fakeReset();
    }
  }

  private DeviceMemory allocate(boolean shareable) {
    return shareable ? device.memAlloc(BLOCK) : device.allocate(BLOCK);
  }

  /** Shareable memory is free when the operations have ended that run as it is closed. */
  @ParameterizedTest
  @CsvSource({"cuMemCreate, true", "cuMemAlloc_v2, false"})
  void anAllocationAwaitsMemoryThatIsBeingFreed(String call, boolean shareable) {
    DeviceMemory before = allocate(/* shareable= */ true);
    fake.fakeOperate(1);
    before.close();
    fake.fakeSpare(0);
    CompletableFuture<DeviceMemory> allocation =
        CompletableFuture.supplyAsync(() -> allocate(shareable));
    String refusal = call + "(no memory)";
    assertTrue(
        Patience.until(() -> fake.fakeRecord().contains(refusal), Duration.ofSeconds(300)),
        refusal);
    fake.fakeOperate(0);
    DeviceMemory made = allocation.join();
    assertEquals(BLOCK, made.size());
    made.close();
  }

  @Test
  void anErrorIsGivenAtOnceIfNothingIsBeingFreed() {
    fake.fakeSpare(0);
    CudaException e = assertThrows(CudaException.class, () -> allocate(/* shareable= */ true));
    assertTrue(e.problem().contains("CUDA_ERROR_OUT_OF_MEMORY"), e.problem());
    assertEquals(
        1, fake.fakeRecord().lines().filter(line -> line.equals("cuMemCreate(no memory)")).count());
  }
}
