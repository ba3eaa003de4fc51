package org.nccl4j.it.api;

import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Devices;
import org.nccl4j.device.Device;

/** On all GPUs. Needs GPUs. */
@Tag("gpu")
@Timeout(120)
class VariablePartsGpuTest extends VariableParts {
  @Override
  List<Device> devices() {
    return List.copyOf(Devices.cuda().list());
  }

  @Override
  int rounds() {
    return Integer.getInteger("rounds", 150);
  }

  @Override
  int mostElements() {
    return 60_000;
  }
}
