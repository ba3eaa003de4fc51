package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DeviceMemory;

/** Memory that is closed while a copy is being launched, against the recording driver. */
class CopyLeaseTest extends AgainstFakeCuda {
  @Test
  void memoryIsFreedAfterTheCopyThatIsBeingLaunched() {
    CudaDevice device = CudaDevices.probe().list().get(0);
    List<Boolean> copiedWhenFreed = new ArrayList<>();
    Runnable release = () -> copiedWhenFreed.add(fake.fakeRecord().contains("cuMemcpy"));
    try (DeviceMemory memory = device.allocate(64);
        DeviceMemory other = device.allocate(64);
        CudaStream stream = (CudaStream) device.createStream()) {
      fake.fakeReset();
      stream.copy(new ClosedWhenRead(memory, release), other);
      fake.fakeReset();
      stream.copy(other, new ClosedWhenRead(memory, release));
      assertEquals(List.of(true, true), copiedWhenFreed);
    }
  }
}
