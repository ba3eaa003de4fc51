package org.nccl4j.device.bind;

import java.lang.reflect.Proxy;
import java.util.Objects;
import java.util.stream.Stream;
import jnr.ffi.LibraryLoader;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;

/** Loads native libraries through jnr-ffi. */
public final class NativeLibrary {
  static {
    // With its own x86 stubs jnr-ffi passes the return address as the sixth of exactly six integer
    // arguments (every version up to 2.3.4); mmap and cuMulticastBindMem have six.
    System.setProperty("jnr.ffi.x86asm.enabled", "false");
    JffiCleaner.withoutThread();
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
      throw failure(name, e);
    }
  }

  /**
   * The functions of a library that every machine has, for a constant of a class: where it cannot
   * be loaded, each call throws why. A class that cannot be initialised would say so once only.
   *
   * @param type as for {@link #load}
   * @param name as for {@link #load}
   */
  public static <T> T required(Class<T> type, String name) {
    try {
      return load(type, name);
    } catch (SystemErrorException e) {
      return type.cast(
          Proxy.newProxyInstance(
              type.getClassLoader(),
              new Class<?>[] {type},
              (proxy, method, arguments) -> {
                throw e.again();
              }));
    }
  }

  static SystemErrorException failure(String name, UnsatisfiedLinkError e) {
    String all =
        Stream.<Throwable>iterate(e, Objects::nonNull, Throwable::getCause).toList().toString();
    String why;
    String remedy;
    if (all.contains("IllegalCallerException")) {
      why = "this JVM denies native access";
      remedy =
          "start java with --enable-native-access=ALL-UNNAMED if nccl4j is on the class path, or"
              + " with --enable-native-access=org.jnrproject.jffi if it is on the module path";
    } else if (all.contains("sun/misc/Unsafe") || all.contains("sun.misc.Unsafe")) {
      why = "this Java runtime has no module jdk.unsupported, which jffi needs";
      remedy = "add jdk.unsupported to the modules that jlink puts into the runtime";
    } else {
      // One line: the loader says the same for each way that it tries.
      why = String.valueOf(e.getMessage()).lines().findFirst().orElse("without a reason");
      remedy =
          "install it, or add its directory to LD_LIBRARY_PATH; ./nccl doctor tells which are"
              + " needed";
    }
    return new SystemErrorException(
        ErrorId.LIBRARY,
        "the native library %s cannot be loaded (%s)".formatted(name, why),
        remedy,
        e);
  }
}
