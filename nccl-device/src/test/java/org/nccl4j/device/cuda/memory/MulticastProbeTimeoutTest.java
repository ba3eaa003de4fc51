package org.nccl4j.device.cuda.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.bind.NativeWords;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaDevices;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.symmetric.MulticastMemory;

/** A kernel of the single accesses that does not run, against the recording driver. */
@Timeout(600)
class MulticastProbeTimeoutTest extends AgainstFakeCuda {
  private static final int NOT_READY = 600; // CUDA_ERROR_NOT_READY
  private static final int REVOKED = 3 * Long.BYTES; // behind the other arguments
  private static final int ARGUMENTS = 4096; // of the driver's record

  @Test
  void aKernelThatIsGivenUpIsRevoked() {
    CudaDevice device = CudaDevices.probe().list().get(0);
    Gpu gpu = device.gpu();
    MulticastProbe probe = new MulticastProbe(gpu, Duration.ofMillis(1));
    try (DeviceMemory memory = device.allocate(64)) {
      MulticastMemory all = new MulticastMemory(/* emulated= */ false, List.of(memory));
      probe.store(memory, all, 0);
      fake.fakeFail("cuStreamQuery", NOT_READY);
      TimeoutException error =
          assertThrows(TimeoutException.class, () -> probe.store(memory, all, 0));
      assertTrue(error.problem().contains("a test of NVLS"), error.problem());
      Offheap arguments = new Offheap(ARGUMENTS);
      fake.fakeArguments(arguments.address());
      assertEquals(memory.address(), arguments.getLong(0));
      long word = arguments.getLong(REVOKED);
      assertEquals(1, new NativeWords(word).getInt(0));
      CudaLibrary.freeHost(word, gpu); // no kernel runs here
    }
  }
}
