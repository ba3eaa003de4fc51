package org.nccl4j.it.api;

import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Devices;
import org.nccl4j.device.Device;

/** On the host device. */
@Timeout(600)
class ReductionBitsTest extends ReductionBits {
  @Override
  List<Device> devices() {
    return Collections.nCopies(3, Devices.host());
  }

  @Override
  int mostElements() {
    return 70_001;
  }
}
