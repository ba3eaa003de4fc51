package org.nccl4j.transport.net.ib.verbs;

import org.nccl4j.device.bind.NativeLibrary;
import org.nccl4j.device.bind.NativeNames;
import org.nccl4j.device.shm.OwnedFd;
import org.nccl4j.transport.net.ib.bind.DescriptorFunctions;

/** Calls the C library for this package. */
public final class Descriptors {
  private static final int POLLIN = 1;
  private static final int F_DUPFD_CLOEXEC = 1030;
  private static final DescriptorFunctions C =
      NativeLibrary.required(DescriptorFunctions.class, NativeNames.LIBC);

  /** A struct pollfd: descriptor, wanted events, events. Owned by one thread at a time. */
  private final NativeBlock wanted = new NativeBlock(8);

  public Descriptors(int descriptor) {
    wanted.putInt(0, descriptor);
    wanted.putShort(4, POLLIN);
  }

  /** True if something can be read from the descriptor now. */
  public boolean readable() {
    wanted.putShort(6, 0);
    return C.poll(wanted.address(), 1, 0) > 0 && (wanted.getShort(6) & POLLIN) != 0;
  }

  /** Another descriptor of the same file; null if this process may not have more. */
  public static OwnedFd duplicate(int descriptor) {
    int made = C.fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    return made < 0 ? null : new OwnedFd(made);
  }

  /** An error number in words. */
  public static String describe(int errno) {
    return "%s, errno %d".formatted(C.strerror(errno), errno);
  }
}
