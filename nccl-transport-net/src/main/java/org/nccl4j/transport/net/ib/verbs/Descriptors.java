package org.nccl4j.transport.net.ib.verbs;

import java.lang.ref.Reference;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.bind.NativeLibrary;
import org.nccl4j.device.bind.NativeNames;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.shm.OwnedFd;
import org.nccl4j.transport.net.ib.bind.DescriptorFunctions;

/** Calls the C library for this package. */
public final class Descriptors {
  private static final int POLLIN = 1;
  private static final int EFD_CLOEXEC = 0x80000;
  private static final int F_DUPFD_CLOEXEC = 1030;
  private static final DescriptorFunctions C =
      NativeLibrary.required(DescriptorFunctions.class, NativeNames.LIBC);

  /** A struct pollfd: descriptor, wanted events, events. Owned by one thread at a time. */
  private final Offheap wanted = new Offheap(8);

  public Descriptors(int descriptor) {
    want(wanted, 0, descriptor);
  }

  /** True if something can be read from the descriptor now. */
  public boolean readable() {
    return poll(wanted, 1, 0) > 0 && isReadable(wanted, 0);
  }

  /** Fills a struct pollfd, for reading. */
  static void want(Offheap polled, int at, int descriptor) {
    polled.putInt(at, descriptor);
    polled.putShort(at + 4, POLLIN);
  }

  /** True if a struct pollfd says that something can be read. */
  static boolean isReadable(Offheap polled, int at) {
    return (polled.getShort(at + 6) & POLLIN) != 0;
  }

  /** Calls poll for some structs. */
  static int poll(Offheap polled, int count, int milliseconds) {
    int ready = C.poll(polled.address(), count, milliseconds);
    Reference.reachabilityFence(polled);
    return ready;
  }

  /**
   * A descriptor that can be read once something is written to it.
   *
   * @throws SystemErrorException if this process may not have more
   */
  static OwnedFd event() {
    int made = C.eventfd(0, EFD_CLOEXEC);
    if (made < 0) {
      throw new SystemErrorException(
          ErrorId.OPEN_FILES, "eventfd fails: no descriptor is left", "raise ulimit -n");
    }
    return new OwnedFd(made);
  }

  /** Writes bytes to a descriptor that takes them at once. */
  static void write(OwnedFd to, Offheap bytes, int count) {
    C.write(to.value(), bytes.address(), count);
    Reference.reachabilityFence(bytes);
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
