package org.nccl4j.device.bind;

import com.kenai.jffi.CallContext;
import com.kenai.jffi.Invoker;
import com.kenai.jffi.Library;
import com.kenai.jffi.MemoryIO;
import com.kenai.jffi.Type;
import java.nio.charset.StandardCharsets;

/**
 * The C library's functions through jffi. A class that jnr-ffi makes at run time does the same, but
 * making it took half of the time of a process's first communicator on the host.
 */
final class JffiLibc implements LibcFunctions {
  private static final Invoker INVOKER = Invoker.getInstance();
  private static final MemoryIO MEMORY = MemoryIO.getInstance();

  /** A function of the C library: its address, and the types of its arguments and result. */
  private static final class Function {
    private final String name;
    private final long address;
    private final CallContext context;

    Function(Library library, String name, Type result, Type... arguments) {
      this.name = name;
      address = library.getSymbolAddress(name);
      context = Jffi.context(result, /* errno= */ true, arguments);
    }

    /** Throws only for the function that an old C library lacks. */
    long address() {
      if (address == 0) {
        throw new UnsatisfiedLinkError("the C library has no function " + name);
      }
      return address;
    }

    long call() {
      return INVOKER.invokeN0(context, address());
    }

    long call(long a) {
      return INVOKER.invokeN1(context, address(), a);
    }

    long call(long a, long b) {
      return INVOKER.invokeN2(context, address(), a, b);
    }

    long call(long a, long b, long c) {
      return INVOKER.invokeN3(context, address(), a, b, c);
    }

    long call(long a, long b, long c, long d) {
      return INVOKER.invokeN4(context, address(), a, b, c, d);
    }

    long call(long a, long b, long c, long d, long e) {
      return INVOKER.invokeN5(context, address(), a, b, c, d, e);
    }

    long call(long a, long b, long c, long d, long e, long f) {
      return INVOKER.invokeN6(context, address(), a, b, c, d, e, f);
    }
  }

  private static final Type INT = Type.SINT;
  private static final Type LONG = Type.SINT64;

  private final Function mmap;
  private final Function processVmReadv;
  private final Function munmap;
  private final Function mprotect;
  private final Function madvise;
  private final Function memfdCreate;
  private final Function open;
  private final Function close;
  private final Function ftruncate;
  private final Function fallocate;
  private final Function lseek;
  private final Function fcntl;
  private final Function socket;
  private final Function setsockopt;
  private final Function bind;
  private final Function connect;
  private final Function sendmsg;
  private final Function recvmsg;
  private final Function getuid;
  private final Function strerror;

  /**
   * Looks the functions up.
   *
   * @param file of the C library; empty for the one that the process has
   * @throws UnsatisfiedLinkError if there is no such file
   */
  JffiLibc(String file) {
    Library c =
        file.isEmpty()
            ? Library.getDefault()
            : Library.openLibrary(file, Library.LAZY | Library.LOCAL);
    if (c == null) {
      throw new UnsatisfiedLinkError(Library.getLastError());
    }
    mmap = new Function(c, "mmap", LONG, LONG, LONG, INT, INT, INT, LONG);
    processVmReadv = new Function(c, "process_vm_readv", LONG, INT, LONG, LONG, LONG, LONG, LONG);
    munmap = new Function(c, "munmap", INT, LONG, LONG);
    mprotect = new Function(c, "mprotect", INT, LONG, LONG, INT);
    madvise = new Function(c, "madvise", INT, LONG, LONG, INT);
    memfdCreate = new Function(c, "memfd_create", INT, LONG, INT);
    open = new Function(c, "open", INT, LONG, INT, INT);
    close = new Function(c, "close", INT, INT);
    ftruncate = new Function(c, "ftruncate", INT, INT, LONG);
    fallocate = new Function(c, "fallocate", INT, INT, INT, LONG, LONG);
    lseek = new Function(c, "lseek", LONG, INT, LONG, INT);
    fcntl = new Function(c, "fcntl", INT, INT, INT, INT);
    socket = new Function(c, "socket", INT, INT, INT, INT);
    setsockopt = new Function(c, "setsockopt", INT, INT, INT, INT, LONG, INT);
    bind = new Function(c, "bind", INT, INT, LONG, INT);
    connect = new Function(c, "connect", INT, INT, LONG, INT);
    sendmsg = new Function(c, "sendmsg", LONG, INT, LONG, INT);
    recvmsg = new Function(c, "recvmsg", LONG, INT, LONG, INT);
    getuid = new Function(c, "getuid", INT);
    strerror = new Function(c, "strerror", LONG, INT);
  }

  @Override
  public long mmap(long address, long bytes, int protection, int flags, int fd, long offset) {
    return mmap.call(address, bytes, protection, flags, fd, offset);
  }

  @Override
  public long process_vm_readv(int process, long to, long tos, long from, long froms, long flags) {
    return processVmReadv.call(process, to, tos, from, froms, flags);
  }

  @Override
  public int munmap(long address, long bytes) {
    return (int) munmap.call(address, bytes);
  }

  @Override
  public int mprotect(long address, long bytes, int protection) {
    return (int) mprotect.call(address, bytes, protection);
  }

  @Override
  public int madvise(long address, long bytes, int advice) {
    return (int) madvise.call(address, bytes, advice);
  }

  @Override
  public int memfd_create(String name, int flags) {
    long copy = copy(name);
    try {
      return (int) memfdCreate.call(copy, flags);
    } finally {
      MEMORY.freeMemory(copy);
    }
  }

  @Override
  public int open(String path, int flags, int mode) {
    long copy = copy(path);
    try {
      return (int) open.call(copy, flags, mode);
    } finally {
      MEMORY.freeMemory(copy);
    }
  }

  /** A string of C in memory of its own. */
  private static long copy(String text) {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    long copy = MEMORY.allocateMemory(bytes.length + 1L, /* clear= */ true);
    MEMORY.putByteArray(copy, bytes, 0, bytes.length);
    return copy;
  }

  @Override
  public int close(int fd) {
    return (int) close.call(fd);
  }

  @Override
  public int ftruncate(int fd, long bytes) {
    return (int) ftruncate.call(fd, bytes);
  }

  @Override
  public int fallocate(int fd, int mode, long offset, long bytes) {
    return (int) fallocate.call(fd, mode, offset, bytes);
  }

  @Override
  public long lseek(int fd, long offset, int whence) {
    return lseek.call(fd, offset, whence);
  }

  @Override
  public int fcntl(int fd, int command, int argument) {
    return (int) fcntl.call(fd, command, argument);
  }

  @Override
  public int socket(int domain, int type, int protocol) {
    return (int) socket.call(domain, type, protocol);
  }

  @Override
  public int setsockopt(int fd, int level, int option, long value, int bytes) {
    return (int) setsockopt.call(fd, level, option, value, bytes);
  }

  @Override
  public int bind(int fd, long address, int bytes) {
    return (int) bind.call(fd, address, bytes);
  }

  @Override
  public int connect(int fd, long address, int bytes) {
    return (int) connect.call(fd, address, bytes);
  }

  @Override
  public long sendmsg(int fd, long message, int flags) {
    return sendmsg.call(fd, message, flags);
  }

  @Override
  public long recvmsg(int fd, long message, int flags) {
    return recvmsg.call(fd, message, flags);
  }

  @Override
  public int getuid() {
    return (int) getuid.call();
  }

  @Override
  public String strerror(int errno) {
    return new String(
        MEMORY.getZeroTerminatedByteArray(strerror.call(errno)), StandardCharsets.UTF_8);
  }
}
