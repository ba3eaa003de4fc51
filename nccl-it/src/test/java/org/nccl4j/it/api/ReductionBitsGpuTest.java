package org.nccl4j.it.api;

import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Devices;
import org.nccl4j.device.Device;

/** On all GPUs, with the host device's bits as those of the ranks' order. Needs GPUs. */
@Tag("gpu")
@Tag("two-gpus")
@Timeout(600)
class ReductionBitsGpuTest extends ReductionBits {
  @Override
  List<Device> devices() {
    return List.copyOf(Devices.cuda().list());
  }

  @Override
  int mostElements() {
    return 1_000_003;
  }
}
