package org.nccl4j.device.cuda.window;

/** The alignment of the parts of an exchange's memory. */
final class PartAlignment {
  private static final int BYTES = 128;

  private PartAlignment() {}

  /** A size or an offset, rounded up to where the next part begins. */
  static long aligned(long bytes) {
    return (bytes + BYTES - 1) / BYTES * BYTES;
  }
}
