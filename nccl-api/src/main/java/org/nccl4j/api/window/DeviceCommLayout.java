package org.nccl4j.api.window;

/**
 * The layout of a device communicator's window, the same on all ranks, as nccl4j_device.cuh reads
 * it. First come the barriers' flags: a word of each rank for each barrier, each in its own cache
 * line. The other parts follow in the order of the methods here; each returns an offset.
 *
 * @param parts the numbers of barriers, slots and signals
 * @param team the number of ranks that load from and store to each other's memory
 */
public record DeviceCommLayout(DeviceCommRequirements parts, int team) {
  private static final long CACHE_LINE = 128;

  /** Bytes of a line of LL: 8 of data with 8 of flags. */
  private static final int LINE_BYTES = 16;

  /** Kernels count a barrier's uses in 3 ways. */
  private static final int EPOCHS_OF_BARRIER = 3;

  /** The flags of a barrier on the host. */
  public long flags(int barrier) {
    return (long) barrier * team * CACHE_LINE;
  }

  /** This rank's numbers of uses of its barriers and of the LL all-to-all, in words of 8 bytes. */
  public long epochs() {
    return flags(Math.max(1, parts.barriers()));
  }

  /** The word in which kernels claim places of the ring of puts. */
  public long claimed() {
    return epochs() + Long.BYTES * (EPOCHS_OF_BARRIER * (long) parts.barriers() + 1);
  }

  /** The counters of barriers with multimem, which all ranks add to: a cache line a barrier. */
  public long counters() {
    return (claimed() + Long.BYTES + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
  }

  /** The lines of the LL all-to-all: two halves of a line for each rank and slot. */
  public long lines() {
    return counters() + parts.barriers() * CACHE_LINE;
  }

  /** The signals that ranks of the team raise, in words of 8 bytes. */
  public long signals() {
    return lines() + 2L * team * Math.max(1, parts.slots()) * LINE_BYTES;
  }

  /** The size of the window. */
  public long bytes() {
    return signals() + (long) Long.BYTES * parts.signals();
  }
}
