package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.Leases;

/** Memory that is closed while a copy is being launched, against the recording driver. */
class CopyLeaseTest extends AgainstFakeCuda {
  /** Memory that is closed, as by another thread, between the check and the driver's call. */
  private static final class ClosedMeanwhile extends DeviceMemory {
    private final DeviceMemory of;

    ClosedMeanwhile(DeviceMemory of, Runnable release) {
      super(of.size(), Leases.freeing(release));
      this.of = of;
    }

    @Override
    public Device device() {
      return of.device();
    }

    @Override
    public long address() {
      close();
      return of.address();
    }

    @Override
    public DeviceMemory slice(long offset, long bytes) {
      throw new UnsupportedOperationException();
    }

    @Override
    public void write(long offset, ByteBuffer source) {
      throw new UnsupportedOperationException();
    }

    @Override
    public void read(long offset, ByteBuffer target) {
      throw new UnsupportedOperationException();
    }

    @Override
    public void fill(byte value) {
      throw new UnsupportedOperationException();
    }
  }

  @Test
  void memoryIsFreedAfterTheCopyThatIsBeingLaunched() {
    CudaDevice device = CudaDevices.probe().list().get(0);
    List<Boolean> copiedWhenFreed = new ArrayList<>();
    Runnable release = () -> copiedWhenFreed.add(fake.fakeRecord().contains("cuMemcpy"));
    try (DeviceMemory memory = device.allocate(64);
        DeviceMemory other = device.allocate(64);
        CudaStream stream = (CudaStream) device.createStream()) {
      fake.fakeReset();
      stream.copy(new ClosedMeanwhile(memory, release), other);
      fake.fakeReset();
      stream.copy(other, new ClosedMeanwhile(memory, release));
      assertEquals(List.of(true, true), copiedWhenFreed);
    }
  }
}
