package org.nccl4j.device.shm;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.bind.NativeMemory;

/**
 * A range of this process's addresses with memory behind it, zeroed when new, page-aligned.
 *
 * <p>Unmapped by {@link #close()}, or once nothing refers to it any more: code that uses the
 * address keeps a reference to the region. Any thread may call any method.
 */
public final class MappedRegion implements AutoCloseable {
  private static final Cleaner CLEANER = Cleaner.create();
  private static final int PAGE = 4096;

  private final long address;
  private final long bytes;
  private final Cleaner.Cleanable mapping;

  private MappedRegion(long address, long bytes) {
    this(address, bytes, new Unmap(address, bytes));
  }

  private MappedRegion(long address, long bytes, Runnable release) {
    this.address = address;
    this.bytes = bytes;
    mapping = CLEANER.register(this, release);
  }

  /** Memory of Java's, for a system without the C library's functions. */
  private static MappedRegion direct(long bytes) {
    if (bytes > Integer.MAX_VALUE - 2 * PAGE) {
      throw new SystemErrorException(
          ErrorId.MEMORY,
          "%d bytes are requested, and native functions cannot be called".formatted(bytes),
          "ask for less than 2 GiB at once, or use Linux and allow native access");
    }
    ByteBuffer all;
    try {
      all = ByteBuffer.allocateDirect((int) (bytes + 2 * PAGE - 1) & -PAGE);
    } catch (OutOfMemoryError e) {
      throw new SystemErrorException(
          ErrorId.MEMORY,
          "allocating %d bytes failed: %s".formatted(bytes, e.getMessage()),
          "raise -XX:MaxDirectMemorySize, or use less memory",
          e);
    }
    ByteBuffer pages = all.alignedSlice(PAGE);
    return new MappedRegion(
        NativeMemory.addressOf(pages), bytes, () -> Reference.reachabilityFence(pages));
  }

  /**
   * Memory of this process alone. Pages are taken when they are first touched.
   *
   * @param bytes how many, at least 1
   * @throws org.nccl4j.device.SystemErrorException if the address space or a limit is exhausted
   */
  public static MappedRegion anonymous(long bytes) {
    checkSize(bytes);
    return Libc.isAvailable() ? new MappedRegion(Libc.mapAnonymous(bytes), bytes) : direct(bytes);
  }

  /**
   * Machine code, which nobody can change any more.
   *
   * @throws org.nccl4j.device.SystemErrorException if the system lets this process make none
   */
  public static MappedRegion code(byte[] code) {
    MappedRegion region = anonymous(code.length);
    try {
      for (int at = 0; at < code.length; at++) {
        NativeMemory.putByte(region.address + at, code[at]);
      }
      Libc.makeCode(region.address, code.length);
      return region;
    } catch (RuntimeException e) {
      region.close();
      throw e;
    }
  }

  /**
   * All of a file, shared with all that map it. The file can be deleted afterwards.
   *
   * @param file of a file system that has room for all of it: where not, touching it may end the
   *     process
   * @param bytes the size that it has
   * @throws org.nccl4j.device.SystemErrorException if it cannot be opened or has another size
   */
  public static MappedRegion ofFile(Path file, long bytes) {
    return SharedSegment.attach(Libc.openExisting(file.toString()), bytes);
  }

  /** All of a file, shared with all that map it; the file may be closed afterwards. */
  static MappedRegion shared(int fd, long bytes) {
    checkSize(bytes);
    return new MappedRegion(Libc.mapShared(fd, bytes), bytes);
  }

  static void checkSize(long bytes) {
    if (bytes <= 0) {
      throw new InvalidArgumentException(
          ErrorId.COUNT, "a mapping of " + bytes + " bytes", "ask for at least 1 byte");
    }
  }

  /**
   * True unless the process cannot read the byte at an address. Where the kernel does not let the
   * process ask, the answer is true.
   */
  public static boolean isReadable(long address) {
    // The call refuses memory that a driver maps, such as CUDA's pinned memory: the list has it.
    return Libc.isAvailable() && Libc.isReadable(address) || isMapped(address);
  }

  /** True if the kernel's list of mappings has an address as readable, or cannot be read. */
  private static boolean isMapped(long address) {
    try (Stream<String> mappings = Files.lines(Path.of("/proc/self/maps"))) {
      return mappings.anyMatch(
          line -> {
            int dash = line.indexOf('-');
            int space = line.indexOf(' ');
            return line.charAt(space + 1) == 'r'
                && Long.parseUnsignedLong(line, 0, dash, 16) <= address
                && address < Long.parseUnsignedLong(line, dash + 1, space, 16);
          });
    } catch (IOException | UncheckedIOException e) {
      return true;
    }
  }

  /** The address of the first byte. */
  public long address() {
    return address;
  }

  /** Bytes. */
  public long bytes() {
    return bytes;
  }

  /** Asks the kernel for huge pages and says whether it will try. */
  public boolean preferHugePages() {
    return Libc.isAvailable() && Libc.adviseHugePages(address, bytes);
  }

  /**
   * Has pages that nobody has touched lie on the calling thread's NUMA node, where the kernel
   * agrees.
   */
  public void preferOwnNode() {
    NumaPlacement.here(address, bytes);
  }

  /** Unmaps it: any later access to its addresses may end the process. Again does nothing. */
  @Override
  public void close() {
    mapping.clean();
  }

  /**
   * Returns the action of {@link #close}, to run later. It does not keep the region reachable. If
   * nothing else does, the region is unmapped earlier.
   */
  public Runnable unmapping() {
    return mapping::clean;
  }

  private record Unmap(long address, long bytes) implements Runnable {
    @Override
    public void run() {
      Libc.unmap(address, bytes);
    }
  }
}
