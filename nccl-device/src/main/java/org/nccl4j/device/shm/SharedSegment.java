package org.nccl4j.device.shm;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.bind.NativeMemory;

/**
 * Memory that other processes can map: they are given its file descriptor. It has no name anywhere,
 * so nothing is left of it when the last process that maps it has ended, in whatever way. Zeroed
 * when new; pages are taken when they are first touched or reserved.
 *
 * <p>Any thread; its memory is used by none after close.
 */
public final class SharedSegment implements AutoCloseable {
  /** The reason why processes cannot share memory here; empty if they can. */
  public static Optional<String> obstacle() {
    return Libc.isAvailable()
        ? Optional.empty()
        : Optional.of(
            "processes share memory by calls of Linux's C library, which this JVM cannot make: "
                + Libc.obstacle());
  }

  private static final String ENLARGE =
      "give it more (docker run --shm-size=1g; in Kubernetes a volume emptyDir with medium: Memory"
          + " mounted there), or unset NCCL4J_SHM to use memory that is not bounded by it";

  /**
   * The pages of a segment at its end. Its cleaner keeps it, so it does not refer to the segment.
   */
  private static final class Pages implements Runnable {
    private final int fd;
    private final long bytes;
    private volatile boolean discarded;

    Pages(int fd, long bytes) {
      this.fd = fd;
      this.bytes = bytes;
    }

    @Override
    public void run() {
      if (discarded) {
        Libc.discard(fd, bytes);
      }
    }
  }

  private final OwnedFd fd;
  private final Pages pages;
  private final MappedRegion region;

  /** Directory of the memory if it has a size limit of its own; else null. */
  private final Path directory;

  private boolean closed;

  /** Takes a new file of so many bytes over; closes it if it cannot be mapped. */
  private SharedSegment(int opened, long bytes, Path directory) {
    this.pages = new Pages(opened, bytes);
    this.fd = new OwnedFd(opened, pages);
    this.directory = directory;
    boolean mapped = false;
    try {
      Libc.resize(opened, bytes);
      if (directory == null) {
        Libc.sealSize(opened);
      }
      this.region = MappedRegion.shared(opened, bytes);
      mapped = true;
    } finally {
      if (!mapped) {
        fd.close();
      }
    }
  }

  /**
   * A segment in memory that belongs to no file system (memfd_create), and is therefore bounded by
   * nothing but the machine's or the container's memory. Its size can never change.
   *
   * @param bytes its size, at least 1
   */
  public static SharedSegment create(long bytes) {
    MappedRegion.checkSize(bytes);
    return new SharedSegment(Libc.memfd("nccl4j"), bytes, null);
  }

  /**
   * A segment in a directory of a file system in memory, such as /dev/shm. Memory that is not
   * reserved by {@link #reserve} must not be touched: a full file system would end the process.
   *
   * @param bytes its size, at least 1; may be more than the file system has
   */
  public static SharedSegment createIn(Path directory, long bytes) {
    MappedRegion.checkSize(bytes);
    int opened = Libc.openUnnamed(directory.toString());
    if (opened < 0) {
      throw new SystemErrorException(
          ErrorId.SHARED_MEMORY,
          "shared memory cannot be created in %s: %s"
              .formatted(directory, Libc.describe(Libc.errno())),
          Files.isDirectory(directory)
              ? "make it a tmpfs that this user may write to, or unset NCCL4J_SHM"
              : "mount a tmpfs there (docker run --shm-size=1g; in Kubernetes a volume emptyDir"
                  + " with medium: Memory), or unset NCCL4J_SHM");
    }
    return new SharedSegment(opened, bytes, directory);
  }

  /**
   * Maps a segment that another process, or another owner in this one, made.
   *
   * @param fd its file descriptor, which this call closes
   * @param bytes the size that it must have
   * @throws SystemErrorException if it has another size
   */
  public static MappedRegion attach(int fd, long bytes) {
    try (OwnedFd owned = new OwnedFd(fd)) {
      return attach(owned, bytes);
    }
  }

  /** Same as {@link #attach(int, long)}. The caller keeps the file descriptor. */
  public static MappedRegion attach(OwnedFd fd, long bytes) {
    long actual = Libc.size(fd.value());
    if (actual != bytes) {
      throw new SystemErrorException(
          ErrorId.SHARED_MEMORY,
          "a shared segment has %d bytes, not the %d expected".formatted(actual, bytes),
          "run the same version of nccl4j with the same settings on all ranks");
    }
    return MappedRegion.shared(fd.value(), bytes);
  }

  /**
   * All of it as a buffer, which must not be used after close.
   *
   * @throws InvalidUsageException if it is of 2 GiB or more
   */
  public ByteBuffer buffer() {
    if (region.bytes() > Integer.MAX_VALUE) {
      throw new InvalidUsageException(
          ErrorId.PLUGIN,
          "a segment of %d bytes does not fit a buffer".formatted(region.bytes()),
          "use its address");
    }
    return NativeMemory.buffer(region.address(), (int) region.bytes());
  }

  /**
   * Makes sure that a part can be touched. Where the file system has a bound the memory is taken
   * now.
   *
   * @throws SystemErrorException if there is not enough
   */
  public void reserve(long offset, long bytes) {
    if (directory == null || Libc.allocate(fd(), offset, bytes)) {
      return;
    }
    int errno = Libc.errno();
    throw new SystemErrorException(
        ErrorId.SHARED_MEMORY,
        "%d more bytes of shared memory cannot be allocated in %s, which has %s: %s"
            .formatted(bytes, directory, freeSpace(), Libc.describe(errno)),
        ENLARGE);
  }

  private String freeSpace() {
    try {
      FileStore store = Files.getFileStore(directory);
      return "%d of %d bytes free".formatted(store.getUsableSpace(), store.getTotalSpace());
    } catch (IOException e) {
      return "an unknown number of bytes free (" + e.getMessage() + ")";
    }
  }

  /** Asks the kernel for huge pages and says whether it will try. */
  public boolean preferHugePages() {
    return region.preferHugePages();
  }

  /**
   * Has its pages lie on the calling thread's NUMA node: see {@link MappedRegion#preferOwnNode}.
   */
  public void preferOwnNode() {
    region.preferOwnNode();
  }

  /**
   * Has its pages given back once it is closed, or collected without close, whoever still maps it:
   * they then read zeros. Best effort.
   */
  public void discardAtEnd() {
    pages.discarded = true;
  }

  /**
   * Maps a segment that another process of this user has open.
   *
   * @param process its number
   * @param descriptor the process's file descriptor of the segment
   * @param bytes the size that it must have
   * @throws SystemErrorException if it cannot be opened or has another size
   */
  public static MappedRegion attachOf(long process, int descriptor, long bytes) {
    return attach(Libc.openOf(process, descriptor), bytes);
  }

  /** Returns the file descriptor, to pass it on. The segment still owns it. */
  public synchronized int fd() {
    if (closed) {
      throw new InvalidUsageException(
          ErrorId.CLOSED, "a shared segment is used after close", "close it after its last use");
    }
    return fd.value();
  }

  /** Another file descriptor of it, which the caller closes. */
  public synchronized int duplicateFd() {
    return Libc.duplicate(fd());
  }

  /** The address of the first byte in this process. */
  public long address() {
    return region.address();
  }

  /** Bytes. */
  public long size() {
    return region.bytes();
  }

  /** Unmaps it here and closes its file descriptor; other processes keep it. */
  @Override
  public void close() {
    detach().run();
  }

  /**
   * Closes its file descriptor.
   *
   * @return unmaps it here; does not keep it reachable, as {@link MappedRegion#unmapping}
   */
  public synchronized Runnable detach() {
    closed = true;
    fd.close();
    return region.unmapping();
  }
}
