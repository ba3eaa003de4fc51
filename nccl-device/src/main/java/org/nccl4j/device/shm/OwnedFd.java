package org.nccl4j.device.shm;

import java.lang.ref.Cleaner;

/** A file descriptor that is closed once: by {@link #close()}, or when nothing refers to it. */
final class OwnedFd implements AutoCloseable {
  private static final Cleaner CLEANER = Cleaner.create();

  private final int value;
  private final Cleaner.Cleanable open;

  OwnedFd(int value) {
    this.value = value;
    open = CLEANER.register(this, () -> Libc.close(value));
  }

  int value() {
    return value;
  }

  @Override
  public void close() {
    open.clean();
  }
}
