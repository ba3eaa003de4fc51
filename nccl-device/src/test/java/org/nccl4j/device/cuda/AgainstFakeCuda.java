package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/** Tests against the recording driver, after each of which nothing of it is left. */
abstract class AgainstFakeCuda {
  FakeLibrary fake;
  private long live;

  @BeforeEach
  final void startFake() {
    fake = FakeCuda.get();
    CudaDevices.probe().list().forEach(device -> device.hostCopies().stream());
    live = fake.fakeLive();
  }

  /** A device that knows nothing yet; its stream for copies is of the process's life. */
  final CudaDevice fresh(int index) {
    CudaDevice device = new CudaDevice(index);
    long before = fake.fakeLive();
    device.hostCopies().stream();
    live += fake.fakeLive() - before;
    return device;
  }

  @AfterEach
  final void nothingIsLeft() {
    if (fake != null) {
      fake.fakeReset();
      assertEquals(live, fake.fakeLive());
    }
  }
}
