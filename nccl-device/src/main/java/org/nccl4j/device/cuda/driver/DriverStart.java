package org.nccl4j.device.cuda.driver;

import java.util.Optional;
import jcuda.driver.CUresult;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.bind.CudaStart;
import org.nccl4j.device.bind.NativeLibrary;
import org.nccl4j.device.bind.NativeNames;

/** Starts the driver, once in a process, or says why it cannot be used. */
public final class DriverStart {
  /** Oldest driver whose interface the bindings here speak, as the driver writes versions. */
  static final int OLDEST_DRIVER = 12000;

  private static Optional<String> absence;

  private DriverStart() {}

  /** Loads and initialises once; why it cannot be used, or empty where it can. */
  public static synchronized Optional<String> absence() {
    if (absence == null) {
      absence = initialise();
    }
    return absence;
  }

  private static Optional<String> initialise() {
    CudaStart driver;
    try {
      driver = NativeLibrary.load(CudaStart.class, NativeNames.CUDA);
    } catch (SystemErrorException e) {
      return Optional.of(
          e.problem().contains(DriverLibrary.FILE + ":")
              ? "there is no NVIDIA driver: libcuda.so.1 cannot be loaded; install the driver, or"
                  + " in a container start it with --gpus all"
              : e.problem());
    }
    ClassPreloader.begin(DriverLibrary::bind); // the driver takes up to a second to start
    int code = driver.cuInit(0);
    if (code != CUresult.CUDA_SUCCESS) {
      return Optional.of(
          "the driver does not start: cuInit returned %s (%d); nvidia-smi may show the cause"
              .formatted(ResultNames.of(code), code));
    }
    int version = CudaLibrary.driverVersion();
    return version >= OLDEST_DRIVER
        ? Optional.empty()
        : Optional.of(
            "the driver is too old: it supports CUDA %d.%d and 12.0 is needed; update it"
                .formatted(version / 1000, version % 1000 / 10));
  }
}
