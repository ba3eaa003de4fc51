package org.nccl4j.device.cuda.driver;

import java.lang.System.Logger;
import java.util.Optional;
import java.util.function.IntToLongFunction;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.cuda.nvml.Nvml;
import org.nccl4j.device.cuda.nvml.NvmlFabric;

/**
 * Fabric handles of a GPU's shareable memory, beside file descriptors, with which other hosts of
 * its NVLink domain map it. Memory has them if the driver supports them and the GPU is part of a
 * fabric of several hosts, or a communicator requested them, until the driver refuses. It refuses
 * without an IMEX channel ({@code /dev/nvidia-caps-imex-channels}). Any thread may call.
 */
public final class FabricHandles {
  private static final int SUPPORTED = 128; // CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED

  private final Gpu gpu;
  private volatile String absence; // null while not asked, "" for none

  FabricHandles(Gpu gpu) {
    this.gpu = gpu;
  }

  /** Why new memory has none; empty where it has, as far as is known. */
  public Optional<String> absence() {
    String known = absence;
    if (known == null) {
      known = lack().orElseGet(this::ofOneHost);
      absence = known;
    }
    return known.isEmpty() ? Optional.empty() : Optional.of(known);
  }

  /** Why there can be none, whatever fabric there is; empty where it must be tried. */
  Optional<String> lack() {
    try {
      return gpu.attribute(SUPPORTED) != 0
          ? Optional.empty()
          : Optional.of("the driver supports no fabric handles of " + gpu);
    } catch (CudaException e) {
      return Optional.of("the driver has no fabric handles, which need CUDA 12.3");
    }
  }

  private String ofOneHost() {
    NvmlFabric fabric = Nvml.probe().fabric(gpu.pciBusId());
    return fabric
        .absence()
        .orElse(fabric.isOfSeveralHosts() ? "" : "the NVLink fabric is of this machine alone");
  }

  /** Has memory made with them from now on, if there can be any. */
  public void ask() {
    absence = lack().orElse("");
  }

  /**
   * Calls the driver with the handle types of new memory, once more with fewer if it refuses.
   *
   * @param call takes types of {@link SharingLibrary}
   */
  public long with(IntToLongFunction call) {
    if (absence().isEmpty()) {
      try {
        return call.applyAsLong(SharingLibrary.FILE_DESCRIPTOR | SharingLibrary.FABRIC);
      } catch (CudaException e) {
        if (!CudaResult.isRefusal(e)) {
          throw e;
        }
        absence = e.problem();
        DebugLog.of("ALLOC")
            .log(
                Logger.Level.INFO,
                "memory of {0} is shared only within its host, by file descriptors: {1}. Look for"
                    + " an IMEX channel in /dev/nvidia-caps-imex-channels",
                gpu,
                e.problem());
      }
    }
    return call.applyAsLong(SharingLibrary.FILE_DESCRIPTOR);
  }
}
