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
    CudaDevices.probe().list().forEach(CudaDevice::context);
    live = fake.fakeLive();
  }

  @AfterEach
  final void nothingIsLeft() {
    if (fake != null) {
      fake.fakeReset();
      assertEquals(live, fake.fakeLive());
    }
  }
}
