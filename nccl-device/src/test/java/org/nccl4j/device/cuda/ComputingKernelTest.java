package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

/** The kernel beside which operations are measured, against the recording driver. */
class ComputingKernelTest extends AgainstFakeCuda {
  @Test
  void hasTheMultiprocessorsSharedMemoryAndTheBlocksAskedFor() {
    CudaDevice device = CudaDevices.probe().list().get(0);
    fake.fakeReset();
    ComputingKernel kernel = new ComputingKernel(device);
    assertEquals(1, calls("cuModuleGetFunction(nccl4j_compute)").size(), fake::fakeRecord);
    assertEquals(1, calls("cuFuncSetAttribute(8,").size(), fake::fakeRecord);
    try (CudaStream stream = device.createPriorityStream()) {
      kernel.launch(stream, 40);
      kernel.launch(stream, 7);
      List<String> launches = calls("cuLaunchKernelEx(");
      assertTrue(launches.get(0).startsWith("cuLaunchKernelEx(40,1,1,256,1,1,"), fake::fakeRecord);
      assertTrue(launches.get(1).startsWith("cuLaunchKernelEx(7,1,1,256,1,1,"), fake::fakeRecord);
    }
    assertEquals(1, calls("cuStreamCreateWithPriority(").size(), fake::fakeRecord);
  }

  private List<String> calls(String begin) {
    return fake.fakeRecord().lines().filter(line -> line.startsWith(begin)).toList();
  }
}
