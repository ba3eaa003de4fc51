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
          "put",
          "has number %d, and number %d is due".formatted(sequence, due),
          "let only Gin of nccl4j_device.cuh write into the ring, of the version of this library");
    }
  }

  /** Checks a descriptor whose number is due. */
  void checkPeer(boolean get, int rank, long window, long offset, long bytes) {
    String what = get ? "get" : "put";
    if (rank < 0 || rank >= space.sends().size()) {
      throw refused(
          what,
          "is %s rank %d of %d".formatted(get ? "from" : "for", rank, space.sends().size()),
          "name a rank in the range");
    }
    if (space.sends().get(rank) == null) {
      throw refused(
          what,
          "is %s rank %d, which is in the same team".formatted(get ? "from" : "for", rank),
          get
              ? "use Gin::get, which loads from the windows of the team's ranks itself"
              : "use Gin::put, which stores into the windows of the team's ranks itself");
    }
    if (bytes != 0) {
      memory(what, get ? "from" : "into", window, offset, bytes);
    }
  }

  void checkKind(long kind, int signal, long bytes) {
    if (kind != GinLayout.PUT && kind != GinLayout.GET) {
      throw refused(
          "put",
          "is of kind " + kind,
          "compile kernels with nccl4j_device.cuh of this library's version");
    }
    if (kind == GinLayout.GET && (signal != -1 || bytes == 0)) {
      throw refused(
          "get",
          "is of %d bytes and raises signal %d".formatted(bytes, signal),
          "let only Gin of nccl4j_device.cuh write into the ring");
    }
  }

  void checkSignal(int signal, int signals, long bytes) {
    if (signal < -1 || signal >= signals || signal < 0 && bytes == 0) {
      throw refused(
          "put",
          "is of %d bytes and raises signal %d of %d".formatted(bytes, signal, signals),
          "name a signal in the range; ask for more when the device communicator is created");
    }
  }

  /** This rank's memory that a descriptor names. */
  DeviceMemory own(boolean get, long window, long offset, long bytes) {
    return memory(get ? "get" : "put", get ? "into" : "from", window, offset, bytes);
  }

  /** This rank's memory that another rank wants to read. */
  DeviceMemory asked(int by, long window, long offset, long bytes) {
    DeviceMemory memory = space.windows().memory(window);
    if (bytes <= 0 || memory == null || offset < 0 || offset > memory.size() - bytes) {
      throw new InvalidUsageException(
          ErrorId.HANDLE,
          "rank %d gets %d bytes at byte %d of window %d of rank %d of %s, which %s"
              .formatted(by, bytes, offset, window, rank, name, state(memory)),
          "deregister a window after the last get from it, on all ranks in the same order");
    }
    return memory;
  }

  private DeviceMemory memory(String what, String direction, long window, long offset, long bytes) {
    DeviceMemory memory = space.windows().memory(window);
    if (bytes < 0 || memory == null || offset < 0 || offset > memory.size() - bytes) {
      throw refused(
          what,
          "is of %d bytes %s byte %d of window %d, which %s"
              .formatted(bytes, direction, offset, window, state(memory)),
          "keep puts and gets inside windows, and deregister a window after Gin::quiet");
    }
    return memory;
  }

  private static String state(DeviceMemory memory) {
    return memory == null ? "is not registered" : "has " + memory.size() + " bytes";
  }

  private InvalidUsageException refused(String what, String why, String remedy) {
    return new InvalidUsageException(
        ErrorId.HANDLE,
        "a %s of a kernel of rank %d of %s %s".formatted(what, rank, name, why),
        remedy);
  }
}
