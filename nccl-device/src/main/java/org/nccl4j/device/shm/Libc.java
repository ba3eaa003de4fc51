package org.nccl4j.device.shm;

import java.lang.ref.Reference;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.bind.LibcFunctions;
import org.nccl4j.device.bind.NativeFunction;
import org.nccl4j.device.bind.NativeLibrary;
import org.nccl4j.device.bind.NativeMemory;
import org.nccl4j.device.bind.NativeNames;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.os.ThisProcess;

/**
 * Calls the C library for this package and checks each return code. The numbers are those of Linux
 * on x86-64 and on 64-bit Arm, which agree in them.
 */
final class Libc {
  static final int EPERM = 1;
  static final int EINTR = 4;
  static final int EAGAIN = 11;
  static final int EFAULT = 14;
  static final int ENOMEM = 12;
  static final int EINVAL = 22;
  static final int ENFILE = 23;
  static final int EMFILE = 24;
  static final int ENOSYS = 38;
  static final int ENOBUFS = 105;
  static final int ETOOMANYREFS = 109;
  static final int ECONNREFUSED = 111;

  private static final int PROT_READ_WRITE = 3;
  private static final int PROT_READ_EXECUTE = 5;
  private static final int MAP_SHARED = 0x01;
  private static final int MAP_PRIVATE_ANONYMOUS_NORESERVE = 0x02 | 0x20 | 0x4000;
  private static final int MAP_FIXED = 0x10;
  private static final int MAP_FIXED_NOREPLACE = 0x100000;
  private static final int MADV_HUGEPAGE = 14;
  private static final int SYS_MBIND_X86 = 237;
  private static final int SYS_MBIND_ARM = 235;
  private static final int SYS_GET_MEMPOLICY_X86 = 239;
  private static final int SYS_GET_MEMPOLICY_ARM = 236;
  private static final int MPOL_PREFERRED = 1;

  /** NUMA nodes in a mask; as many as the kernel can be built for. */
  private static final int MOST_NODES = 1024;

  private static final int MFD_CLOEXEC_ALLOW_SEALING = 3;
  private static final int O_RDWR_CLOEXEC = 0x2 | 0x80000;
  private static final int O_TMPFILE_X86 = 0x410000;
  private static final int O_TMPFILE_ARM = 0x404000;
  private static final int O_NOFOLLOW_X86 = 0x20000;
  private static final int O_NOFOLLOW_ARM = 0x8000;
  private static final int F_DUPFD_CLOEXEC = 1030;
  private static final int F_ADD_SEALS = 1033;
  private static final int SEAL_ALL_BUT_WRITE = 0x1 | 0x2 | 0x4;
  private static final int SEEK_END = 2;
  private static final int FALLOC_PUNCH_HOLE_KEEP_SIZE = 0x2 | 0x1;
  private static final int AF_UNIX = 1;
  private static final int SOCK_DGRAM_NONBLOCK_CLOEXEC = 2 | 0x800 | 0x80000;
  private static final int SOL_SOCKET = 1;
  private static final int SO_PASSCRED = 16;
  private static final int MSG_DONTWAIT_NOSIGNAL = 0x40 | 0x4000;
  private static final int MSG_DONTWAIT_CMSG_CLOEXEC = 0x40 | 0x40000000;

  private static final LibcFunctions C =
      NativeLibrary.required(LibcFunctions.class, NativeNames.LIBC);

  /** False where each call throws. */
  private static final boolean AVAILABLE = !Proxy.isProxyClass(C.getClass()) || answers();

  /** Apart, since {@link #isAvailable} answers also where no memory has an address. */
  private static final class Probe {
    /** A byte, from 16 on its iovec, and from 32 on the iovec of another byte. */
    static final Offheap ONE_BYTE = new Offheap(48);
  }

  private Libc() {}

  /** True if jnr-ffi's functions, which may be a proxy too, can be called. */
  private static boolean answers() {
    try {
      C.getuid();
      return true;
    } catch (SystemErrorException e) {
      return false;
    }
  }

  /** False if there is no C library of Linux, or this JVM denies native access. */
  static boolean isAvailable() {
    return AVAILABLE;
  }

  /** The reason why {@link #isAvailable} is false. */
  static String obstacle() {
    try {
      C.getuid();
      return "";
    } catch (SystemErrorException e) {
      return e.problem() + "; " + e.remedy();
    }
  }

  /** Maps all of a file, shared. */
  static long mapShared(int fd, long bytes) {
    return mapped(C.mmap(0, bytes, PROT_READ_WRITE, MAP_SHARED, fd, 0), bytes);
  }

  /** Maps zeroed memory that takes pages only where it is touched. */
  static long mapAnonymous(long bytes) {
    return mapped(C.mmap(0, bytes, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS_NORESERVE, -1, 0), bytes);
  }

  /** Addresses without memory. */
  static long reserve(long bytes) {
    return mapped(C.mmap(0, bytes, 0, MAP_PRIVATE_ANONYMOUS_NORESERVE, -1, 0), bytes);
  }

  /** Takes the memory of a part of a reserved range away. */
  static void reserveAgain(long address, long bytes) {
    mapped(C.mmap(address, bytes, 0, MAP_PRIVATE_ANONYMOUS_NORESERVE | MAP_FIXED, -1, 0), bytes);
  }

  /**
   * Reserves addresses; false where something lies at some of them, or an old kernel cannot say.
   */
  static boolean reserveFree(long address, long bytes) {
    int flags = MAP_PRIVATE_ANONYMOUS_NORESERVE | MAP_FIXED_NOREPLACE;
    long got = C.mmap(address, bytes, 0, flags, -1, 0);
    if (got != -1 && got != address) {
      unmap(got, bytes);
    }
    return got == address;
  }

  /** Maps the beginning of a file, shared, into a reserved range. */
  static void mapSharedAt(long address, int fd, long bytes) {
    mapped(C.mmap(address, bytes, PROT_READ_WRITE, MAP_SHARED | MAP_FIXED, fd, 0), bytes);
  }

  private static long mapped(long address, long bytes) {
    if (address == -1) {
      throw failed(
          ErrorId.MEMORY,
          "mapping %d bytes".formatted(bytes),
          "raise the limits on address space (ulimit -v) or on mappings"
              + " (sysctl vm.max_map_count), or use less memory");
    }
    return address;
  }

  /** True unless a byte cannot be read, as far as the kernel tells. */
  static boolean isReadable(long at) {
    synchronized (Probe.ONE_BYTE) {
      long block = Probe.ONE_BYTE.address();
      Probe.ONE_BYTE.putLong(16, block).putLong(24, 1).putLong(32, at).putLong(40, 1);
      int self = (int) ThisProcess.pid();
      long bytes = C.process_vm_readv(self, block + 16, 1, block + 32, 1, 0);
      return bytes == 1 || errno() != EFAULT;
    }
  }

  static void unmap(long address, long bytes) {
    if (C.munmap(address, bytes) != 0) {
      throw defect("munmap of %d bytes at 0x%x".formatted(bytes, address));
    }
  }

  /** Makes memory code, which nobody can change any more. */
  static void makeCode(long address, long bytes) {
    if (C.mprotect(address, bytes, PROT_READ_EXECUTE) != 0) {
      throw failed(
          ErrorId.MEMORY,
          "mprotect of memory for code",
          "allow the process to map executable memory");
    }
  }

  /** Asks for huge pages and says whether the kernel has them. */
  static boolean adviseHugePages(long address, long bytes) {
    return C.madvise(address, bytes, MADV_HUGEPAGE) == 0;
  }

  /**
   * Asks for pages of a NUMA node where there are some. 0, or the error number. C libraries have no
   * function for this call.
   */
  static int preferNode(long address, long bytes, int node) {
    long syscall = syscall();
    if (syscall == 0) {
      return ENOSYS;
    }
    if (node >= MOST_NODES) {
      return EINVAL;
    }
    ByteBuffer nodes = ByteBuffer.allocateDirect(MOST_NODES / Byte.SIZE);
    nodes.put(node / Byte.SIZE, (byte) (1 << node % Byte.SIZE)); // words in little-endian order
    long mask = NativeMemory.addressOf(nodes);
    long mbind = isArm() ? SYS_MBIND_ARM : SYS_MBIND_X86;
    try {
      // The kernel reads one bit less than it is told.
      int rc =
          NativeFunction.call(
              syscall, mbind, address, bytes, MPOL_PREFERRED, mask, MOST_NODES + 1, 0, 0);
      return rc == 0 ? 0 : errno();
    } finally {
      Reference.reachabilityFence(nodes);
    }
  }

  /**
   * The mode of the calling thread's memory policy, or minus the error number. C libraries have no
   * function for this call either.
   */
  static int memoryPolicy() {
    long syscall = syscall();
    if (syscall == 0) {
      return -ENOSYS;
    }
    Offheap mode = new Offheap(Integer.BYTES);
    long call = isArm() ? SYS_GET_MEMPOLICY_ARM : SYS_GET_MEMPOLICY_X86;
    try {
      return NativeFunction.call(syscall, call, mode.address(), 0, 0, 0, 0) == 0
          ? mode.getInt(0)
          : -errno();
    } finally {
      Reference.reachabilityFence(mode);
    }
  }

  private static boolean isArm() {
    return "aarch64".equals(System.getProperty("os.arch"));
  }

  /** The address of the function for calls by number; 0 on processors whose numbers are unknown. */
  private static long syscall() {
    boolean known = isArm() || "amd64".equals(System.getProperty("os.arch"));
    return known ? NativeFunction.find(NativeNames.LIBC, "syscall") : 0;
  }

  /** An empty file in memory, without a name in any directory, that can be sealed. */
  static int memfd(String name) {
    int fd = C.memfd_create(name, MFD_CLOEXEC_ALLOW_SEALING);
    if (fd < 0) {
      boolean full = errno() == EMFILE || errno() == ENFILE;
      throw failed(
          full ? ErrorId.OPEN_FILES : ErrorId.SHARED_MEMORY,
          "memfd_create",
          full
              ? "raise ulimit -n, the limit on open files"
              : "allow the call in the container's seccomp profile, or set NCCL4J_SHM=devshm");
    }
    return fd;
  }

  /** An empty file without a name in a directory, or -1 and {@link #errno}. */
  static int openUnnamed(String directory) {
    return C.open(directory, O_RDWR_CLOEXEC | (isArm() ? O_TMPFILE_ARM : O_TMPFILE_X86), 0600);
  }

  /** A file for reading and writing, which is not a symbolic link. */
  static int openExisting(String file) {
    int fd = C.open(file, O_RDWR_CLOEXEC | (isArm() ? O_NOFOLLOW_ARM : O_NOFOLLOW_X86), 0);
    if (fd < 0) {
      throw failed(
          ErrorId.SHARED_MEMORY,
          "opening " + file,
          "make it a file that this user may read and write");
    }
    return fd;
  }

  /** Opens what another process of this user has open, by its file descriptor. */
  static int openOf(long process, int descriptor) {
    String file = "/proc/" + process + "/fd/" + descriptor; // digits as the kernel has them
    int fd = C.open(file, O_RDWR_CLOEXEC, 0);
    if (fd < 0) {
      throw failed(
          ErrorId.SHARED_MEMORY,
          "opening " + file,
          "run all ranks of a machine as one user that can see the others' /proc entries");
    }
    return fd;
  }

  /** Gives the pages of a memory file back; whoever maps it reads zeros. */
  static void discard(int fd, long bytes) {
    C.fallocate(fd, FALLOC_PUNCH_HOLE_KEEP_SIZE, 0, bytes);
  }

  /** Closes a file descriptor; it is closed even where Linux reports an error. */
  static void close(int fd) {
    C.close(fd);
  }

  static void resize(int fd, long bytes) {
    if (C.ftruncate(fd, bytes) != 0) {
      throw failed(
          ErrorId.SHARED_MEMORY,
          "ftruncate to %d bytes".formatted(bytes),
          "raise ulimit -f, the limit on file sizes");
    }
  }

  /** True if a part of a file could be given memory; where not, see {@link #errno}. */
  static boolean allocate(int fd, long offset, long bytes) {
    int rc;
    do {
      rc = C.fallocate(fd, 0, offset, bytes);
    } while (rc != 0 && errno() == EINTR);
    return rc == 0;
  }

  /** Another descriptor of the same file. */
  static int duplicate(int fd) {
    int copy = C.fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) {
      throw failed(
          ErrorId.OPEN_FILES,
          "duplicating a file descriptor",
          "raise ulimit -n, the limit on open files");
    }
    return copy;
  }

  static long size(int fd) {
    long bytes = C.lseek(fd, 0, SEEK_END);
    if (bytes < 0) {
      throw defect("lseek on file descriptor " + fd);
    }
    return bytes;
  }

  /** From now on nobody can change the file's size: no peer can take pages away under a mapping. */
  static void sealSize(int fd) {
    if (C.fcntl(fd, F_ADD_SEALS, SEAL_ALL_BUT_WRITE) != 0) {
      throw failed(
          ErrorId.SHARED_MEMORY,
          "sealing a memfd",
          "use a Linux kernel of version 3.17 or newer, or set NCCL4J_SHM=devshm");
    }
  }

  /** A Unix datagram socket that never blocks and is told its senders' credentials. */
  static int datagramSocket() {
    int fd = C.socket(AF_UNIX, SOCK_DGRAM_NONBLOCK_CLOEXEC, 0);
    if (fd < 0) {
      throw failed(
          ErrorId.OPEN_FILES, "creating a Unix socket", "raise ulimit -n, the limit on open files");
    }
    Offheap on = new Offheap(Integer.BYTES).putInt(0, 1);
    try {
      if (C.setsockopt(fd, SOL_SOCKET, SO_PASSCRED, on.address(), Integer.BYTES) == 0) {
        return fd;
      }
    } finally {
      Reference.reachabilityFence(on);
    }
    NcclException e = defect("setting SO_PASSCRED");
    C.close(fd);
    throw e;
  }

  /** Binds a socket to the path of a datagram. 0, or the error number. */
  static int bind(int fd, Datagram to) {
    try {
      return C.bind(fd, to.address(), Datagram.ADDRESS_BYTES) == 0 ? 0 : errno();
    } finally {
      Reference.reachabilityFence(to);
    }
  }

  /** Connects a socket to the path of a datagram. 0, or the error number. */
  static int connect(int fd, Datagram to) {
    try {
      return C.connect(fd, to.address(), Datagram.ADDRESS_BYTES) == 0 ? 0 : errno();
    } finally {
      Reference.reachabilityFence(to);
    }
  }

  /** Sends a datagram, without waiting. 0, or the error number. */
  static int send(int fd, Datagram datagram) {
    try {
      return C.sendmsg(fd, datagram.header(), MSG_DONTWAIT_NOSIGNAL) >= 0 ? 0 : errno();
    } finally {
      Reference.reachabilityFence(datagram);
    }
  }

  /** Receives a datagram, without waiting. Its bytes, or minus the error number. */
  static long receive(int fd, Datagram datagram) {
    try {
      long bytes = C.recvmsg(fd, datagram.header(), MSG_DONTWAIT_CMSG_CLOEXEC);
      return bytes >= 0 ? bytes : -errno();
    } finally {
      Reference.reachabilityFence(datagram);
    }
  }

  /** The user that this process runs as. */
  static long userId() {
    return C.getuid() & 0xffffffffL;
  }

  /** The error number of this thread's last call. */
  static int errno() {
    return NativeLibrary.errno();
  }

  static String describe(int errno) {
    return "%s, errno %d".formatted(C.strerror(errno), errno);
  }

  /** Creates the error for a call that fails only if this library has a defect. */
  private static InternalErrorException defect(String what) {
    return new InternalErrorException(
        what + " failed: " + describe(errno()), "report this defect", null);
  }

  private static SystemErrorException failed(ErrorId id, String what, String remedy) {
    return new SystemErrorException(id, what + " failed: " + describe(errno()), remedy);
  }
}
