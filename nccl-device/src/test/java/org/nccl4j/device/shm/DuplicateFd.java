package org.nccl4j.device.shm;

/** Copies of file descriptors, as a mailbox would give them. */
public final class DuplicateFd {
  private DuplicateFd() {}

  /** A new descriptor of the same file; the caller closes it. */
  public static int of(int descriptor) {
    return Libc.duplicate(descriptor);
  }
}
