package org.nccl4j.device.kernel.gin;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.kernel.RmaSpace;

/**
 * Checks what kernels write into descriptors, before anything is sent. All ranks' windows have the
 * same size, so a target is compared with this rank's.
 *
 * @param name of the communicator
 * @param rank this one
 */
record GinChecks(String name, int rank, RmaSpace space) {
  void checkSequence(long sequence, long due) {
    if (sequence != due) {
      throw refused(
          "has number %d, and number %d is due".formatted(sequence, due),
          "let only Gin of nccl4j_device.cuh write into the ring, of the version of this library");
    }
  }

  void checkTarget(int to, long window, long offset, long bytes) {
    if (to < 0 || to >= space.sends().size()) {
      throw refused(
          "is for rank %d of %d".formatted(to, space.sends().size()), "name a rank in the range");
    }
    if (space.sends().get(to) == null) {
      throw refused(
          "is for rank %d, which is in the same team".formatted(to),
          "use Gin::put, which stores into the windows of the team's ranks itself");
    }
    if (bytes != 0) {
      memory("into", window, offset, bytes);
    }
  }

  void checkSignal(int signal, int signals, long bytes) {
    if (signal < -1 || signal >= signals || signal < 0 && bytes == 0) {
      throw refused(
          "is of %d bytes and raises signal %d of %d".formatted(bytes, signal, signals),
          "name a signal in the range; ask for more when the device communicator is created");
    }
  }

  long source(long window, long offset, long bytes) {
    return memory("from", window, offset, bytes).address() + offset;
  }

  private DeviceMemory memory(String direction, long window, long offset, long bytes) {
    DeviceMemory memory = space.windows().memory(window);
    if (bytes < 0 || memory == null || offset < 0 || offset > memory.size() - bytes) {
      throw refused(
          "is of %d bytes %s byte %d of window %d, which %s"
              .formatted(
                  bytes,
                  direction,
                  offset,
                  window,
                  memory == null ? "is not registered" : "has " + memory.size() + " bytes"),
          "keep puts inside windows, and deregister a window after Gin::quiet");
    }
    return memory;
  }

  private InvalidUsageException refused(String what, String remedy) {
    return new InvalidUsageException(
        ErrorId.HANDLE,
        "a put of a kernel of rank %d of %s %s".formatted(rank, name, what),
        remedy);
  }
}
