package org.nccl4j.device.host.memory;

import org.nccl4j.device.HotPath;

/**
 * The shared segment that a memory of this process lies in, as other processes find and map it. Any
 * thread.
 */
public final class MappableSegment {
  private final long number;
  private final int descriptor;
  private final long address;
  private final long bytes;
  private final Runnable firstOffer;
  private volatile boolean offered;

  /**
   * A segment.
   *
   * @param number different for each segment of this process; not 0
   * @param descriptor its file descriptor, open as long as the memory is
   * @param address of its first byte in this process
   * @param firstOffer called before another process is first told of it
   */
  public MappableSegment(
      long number, int descriptor, long address, long bytes, Runnable firstOffer) {
    this.number = number;
    this.descriptor = descriptor;
    this.address = address;
    this.bytes = bytes;
    this.firstOffer = firstOffer;
  }

  /** Returns its number. */
  @HotPath
  public long number() {
    return number;
  }

  /** Returns its file descriptor. */
  @HotPath
  public int descriptor() {
    return descriptor;
  }

  /** Returns its bytes. */
  @HotPath
  public long bytes() {
    return bytes;
  }

  /** The place of an address of this process. */
  @HotPath
  public long offset(long of) {
    return of - address;
  }

  /** Another process is told of it, and may keep it mapped. */
  @HotPath
  public void offer() {
    if (!offered) {
      firstOffer.run();
      offered = true;
    }
  }
}
