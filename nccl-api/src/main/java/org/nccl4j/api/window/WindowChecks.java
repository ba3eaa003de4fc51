package org.nccl4j.api.window;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.symmetric.ShareableMemory;

/** Checks memory that a rank registers. Returns an error or null. */
final class WindowChecks {
  private WindowChecks() {}

  static NcclException of(String call, WindowSetup setup, DeviceMemory memory) {
    if (memory == null) {
      return new InvalidArgumentException(
          ErrorId.BUFFER, where(call, setup) + "the memory is null", "pass memory of memAlloc");
    }
    if (memory.device() != setup.device()) {
      return new InvalidArgumentException(
          ErrorId.BUFFER,
          where(call, setup) + "the memory belongs to " + memory.device().name(),
          "pass memory of " + setup.device().name());
    }
    if (!memory.isOpen()) {
      return new InvalidUsageException(
          ErrorId.CLOSED,
          where(call, setup) + "the memory is closed",
          "close memory after it has been deregistered");
    }
    if (memory.size() == 0) {
      return new InvalidArgumentException(
          ErrorId.BUFFER, where(call, setup) + "the memory has 0 bytes", "register 1 byte or more");
    }
    return null;
  }

  static NcclException notExportable(WindowSetup setup, DeviceMemory memory) {
    return new InvalidArgumentException(
        ErrorId.WINDOW,
        where(setup) + "%s cannot be mapped by other ranks".formatted(memory),
        "allocate it with Device.memAlloc instead of allocate");
  }

  /**
   * Returns the handle by which ranks of other hosts map a memory.
   *
   * @throws NcclException if it has none, or the driver refuses
   */
  static byte[] fabricHandle(DeviceMemory memory, ShareableMemory allocation) {
    return allocation
        .exportFabricHandle()
        .orElseThrow(
            () ->
                new InvalidArgumentException(
                    ErrorId.WINDOW,
                    "%s has no fabric handle, which ranks of other hosts need to map it"
                        .formatted(memory),
                    "allocate it with Device.memAlloc after the first communicator of these hosts"
                        + " is created, or set NCCL_MNNVL_ENABLE=0"));
  }

  static NcclException inside(WindowSetup setup, DeviceMemory memory, ShareableMemory allocation) {
    long offset = memory.address() - allocation.address();
    return memory.size() <= allocation.size() - offset
        ? null
        : new InvalidArgumentException(
            ErrorId.WINDOW,
            where(setup)
                + "%s ends %d bytes after its allocation"
                    .formatted(memory, offset + memory.size() - allocation.size()),
            "wrap at most the allocated bytes");
  }

  /** Returns the beginning of a message about registering. */
  static String where(WindowSetup setup) {
    return where("registerWindow", setup);
  }

  private static String where(String call, WindowSetup setup) {
    return "%s on rank %d of communicator %s: ".formatted(call, setup.rank(), setup.name());
  }
}
