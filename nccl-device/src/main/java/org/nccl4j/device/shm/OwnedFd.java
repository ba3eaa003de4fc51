package org.nccl4j.device.shm;

import java.lang.ref.Cleaner;

/** A file descriptor that is closed once: by {@link #close()}, or when nothing refers to it. */
public final class OwnedFd implements AutoCloseable {
  private static final Cleaner CLEANER = Cleaner.create();

  private final int value;
  private final Cleaner.Cleanable open;

  /** Takes a descriptor over. */
  public OwnedFd(int value) {
    this(value, () -> {});
  }

  /**
   * Takes a descriptor over.
   *
   * @param last runs before the descriptor is closed; must not refer to what refers to this object
   */
  OwnedFd(int value, Runnable last) {
    this.value = value;
    open =
        CLEANER.register(
            this,
            () -> {
              last.run();
              Libc.close(value);
            });
  }

  /** The descriptor. */
  public int value() {
    return value;
  }

  @Override
  public void close() {
    open.clean();
  }
}
