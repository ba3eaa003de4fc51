package org.nccl4j.device.bind;

import jnr.ffi.LibraryLoader;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;

/** Loads native libraries through jnr-ffi. */
public final class NativeLibrary {
  static {
    // With its own x86 stubs jnr-ffi passes the return address as the sixth of exactly six integer
    // arguments (every version up to 2.3.4); mmap and cuMulticastBindMem have six.
    System.setProperty("jnr.ffi.x86asm.enabled", "false");
  }

  private NativeLibrary() {}

  /**
   * The functions of a library.
   *
   * @param type a public interface whose methods are the library's functions
   * @param name the library's file name, such as "libc.so.6", or an absolute path
   * @throws SystemErrorException if there is no such library
   */
  public static <T> T load(Class<T> type, String name) {
    try {
      return LibraryLoader.create(type).failImmediately().load(name);
    } catch (UnsatisfiedLinkError e) {
      throw new SystemErrorException(
          ErrorId.LIBRARY,
          "the native library %s cannot be loaded (%s)".formatted(name, reason(e)),
          "install it, or add its directory to LD_LIBRARY_PATH; ./nccl doctor tells which are needed",
          e);
    }
  }

  /** One line: the loader says the same for each way that it tries. */
  private static String reason(UnsatisfiedLinkError e) {
    return String.valueOf(e.getMessage()).lines().findFirst().orElse("without a reason");
  }
}
