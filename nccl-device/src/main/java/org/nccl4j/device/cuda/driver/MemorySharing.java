package org.nccl4j.device.cuda.driver;

import java.util.Optional;
import org.nccl4j.device.CudaException;

/**
 * Support for sharing a GPU's physical memory through file descriptors, as its attributes say,
 * until the driver refuses. Any thread may call.
 */
public final class MemorySharing {
  private static final int VIRTUAL_MEMORY = 102; // ..._VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
  private static final int FILE_DESCRIPTORS = 103; // ..._TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED

  private final Gpu gpu;
  private volatile String absence; // null while not asked, "" for none

  MemorySharing(Gpu gpu) {
    this.gpu = gpu;
  }

  /** Why it cannot be shared; empty while it can, as far as is known. */
  public Optional<String> absence() {
    String known = absence;
    if (known == null) {
      known =
          gpu.attribute(VIRTUAL_MEMORY) == 0
              ? gpu + " has no virtual memory management"
              : gpu.attribute(FILE_DESCRIPTORS) == 0
                  ? gpu + " cannot export memory as file descriptors"
                  : "";
      absence = known;
    }
    return known.isEmpty() ? Optional.empty() : Optional.of(known);
  }

  /** Remembers that the driver refused to share memory. */
  public void refused(CudaException refusal) {
    absence = refusal.problem();
  }
}
