package org.nccl4j.api.init.costs;

import java.util.List;
import org.nccl4j.api.init.engine.NvlsForecast;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.cuda.CudaDevice;

/**
 * Describes whether a communicator with a rank on each GPU of this process would use NVLink SHARP,
 * as its creation decides it.
 */
public final class NvlsUse {
  private NvlsUse() {}

  /**
   * The decision as a text. None of the driver's multicast functions is called.
   *
   * @param gpus one at least
   * @throws org.nccl4j.device.NcclException for wrong settings and files that they name
   */
  public static String of(Settings settings, List<CudaDevice> gpus) {
    NvlsForecast.Answer answer = NvlsForecast.of(settings, gpus);
    return "%s by a rank on each of %d GPUs, because %s"
        .formatted(
            answer.isUsed() ? "used where it is the fastest" : "not used",
            gpus.size(),
            answer.reason());
  }
}
