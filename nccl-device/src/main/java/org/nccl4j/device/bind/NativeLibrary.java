package org.nccl4j.device.bind;

import java.lang.reflect.Proxy;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.stream.Stream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;

/**
 * Loads native libraries, through the JDK's foreign functions from Java 22 on, else through
 * jnr-ffi.
 */
public final class NativeLibrary {
  private NativeLibrary() {}

  /** True if the JDK's foreign functions are used, false if jnr-ffi is. */
  public static boolean isForeign() {
    return NativeBackend.FOREIGN;
  }

  /**
   * The functions of a library.
   *
   * @param type a public interface whose methods are the library's functions
   * @param name the library's file name, such as "libc.so.6", or an absolute path
   * @throws SystemErrorException if there is no such library
   */
  public static <T> T load(Class<T> type, String name) {
    return load(type, name, List.of(name));
  }

  /**
   * The functions of a library under the first of its names that this machine has.
   *
   * @param type as for {@link #load(Class, String)}
   * @throws SystemErrorException if there is no such library; it names all that was tried
   */
  public static <T> T load(Class<T> type, NativeNames names) {
    return load(type, names.name().toLowerCase(Locale.ROOT), names.files());
  }

  private static <T> T load(Class<T> type, String library, List<String> files) {
    if (files.isEmpty()) {
      throw elsewhere(library);
    }
    requireJffi();
    UnsatisfiedLinkError first = null;
    for (String file : files) {
      try {
        return NativeBackend.FOREIGN ? foreign(type, file) : jnr(type, file);
      } catch (UnsatisfiedLinkError e) {
        if (first == null) {
          first = e;
        }
      } catch (IllegalCallerException | NoClassDefFoundError | ExceptionInInitializerError e) {
        UnsatisfiedLinkError denied = new UnsatisfiedLinkError(e.toString());
        denied.initCause(e);
        throw failure(file.isEmpty() ? library : file, denied);
      }
    }
    List<String> tried = files.stream().filter(file -> !file.isEmpty()).toList();
    throw failure(tried.isEmpty() ? library : String.join(", ", tried), first);
  }

  private static void requireJffi() {
    if (!NativeBackend.FOREIGN && !NativeBackend.ADDRESSES) {
      throw NativeBackend.unavailable();
    }
  }

  private static <T> T foreign(Class<T> type, String file) {
    ForeignAccess.requireAccess();
    Object library = ForeignAccess.open(file);
    if (library == null) {
      throw new UnsatisfiedLinkError(ForeignAccess.reason(file));
    }
    return ForeignLibrary.load(type, file, library);
  }

  private static <T> T jnr(Class<T> type, String file) {
    if (type == LibcFunctions.class) {
      return type.cast(new JffiLibc(file));
    }
    if (file.isEmpty()) {
      throw new UnsatisfiedLinkError("jnr-ffi needs a file name");
    }
    return Jffi.load(type, file);
  }

  /**
   * Loads a library for the life of the process, for another one that opens it by its soname.
   *
   * @param file an absolute path
   * @throws SystemErrorException if there is no such library
   */
  public static void keep(String file) {
    requireJffi();
    try {
      if (!NativeBackend.FOREIGN) {
        Jffi.keep(file);
        return;
      }
      ForeignAccess.requireAccess();
      if (ForeignAccess.open(file) == null) {
        throw new UnsatisfiedLinkError(ForeignAccess.reason(file));
      }
    } catch (UnsatisfiedLinkError e) {
      throw failure(file, e);
    }
  }

  /** The address of a symbol; see {@link NativeFunction#find(String, String)}. */
  static long symbol(String file, String symbol) {
    requireJffi();
    try {
      if (!NativeBackend.FOREIGN) {
        return Jffi.symbolOrReason(file, symbol);
      }
      ForeignAccess.requireAccess();
      Object library = ForeignAccess.open(file);
      if (library == null) {
        throw new UnsatisfiedLinkError(ForeignAccess.reason(file));
      }
      return ForeignAccess.symbol(library, symbol);
    } catch (UnsatisfiedLinkError e) {
      throw failure(file, e);
    } catch (IllegalCallerException | NoClassDefFoundError | ExceptionInInitializerError e) {
      UnsatisfiedLinkError denied = new UnsatisfiedLinkError(e.toString());
      denied.initCause(e);
      throw failure(file, denied);
    }
  }

  /**
   * The error number that the thread's last native call left, if its interface is marked {@link
   * SetsErrno}.
   */
  public static int errno() {
    return NativeBackend.FOREIGN ? ForeignAccess.errno() : Jffi.errno();
  }

  /**
   * The functions of a library that every machine has, for a constant of a class: where it cannot
   * be loaded, each call throws why. A class that cannot be initialised would say so once only.
   *
   * @param type as for {@link #load(Class, String)}
   */
  public static <T> T required(Class<T> type, NativeNames names) {
    try {
      return load(type, names);
    } catch (SystemErrorException e) {
      return failing(type, e);
    }
  }

  /** Functions that all throw an error. */
  static <T> T failing(Class<T> type, SystemErrorException error) {
    return type.cast(
        Proxy.newProxyInstance(
            type.getClassLoader(),
            new Class<?>[] {type},
            (proxy, method, arguments) -> {
              throw error.again();
            }));
  }

  /** The error of a library that is not called on this system. */
  private static SystemErrorException elsewhere(String library) {
    String system = System.getProperty("os.name");
    return new SystemErrorException(
        ErrorId.LIBRARY,
        "nccl4j does not call %s on %s".formatted(library, system),
        ("use Linux for shared memory between processes, memAlloc, windows, InfiniBand and several"
                + " GPUs; on %s ranks of the host with memory of allocate() or Devices.wrap are"
                + " threads of a process, or processes over sockets (nccl-transport-net)")
            .formatted(system));
  }

  static SystemErrorException failure(String name, UnsatisfiedLinkError e) {
    return failure(
        name,
        e,
        "install it, or add its directory to LD_LIBRARY_PATH; ./nccl doctor tells which are needed");
  }

  /**
   * The error of a library that cannot be loaded.
   *
   * @param otherwise the remedy unless the JVM or the Java runtime keeps it from being loaded
   */
  static SystemErrorException failure(String name, UnsatisfiedLinkError e, String otherwise) {
    String all =
        Stream.<Throwable>iterate(e, Objects::nonNull, Throwable::getCause).toList().toString();
    String why;
    String remedy;
    if (all.contains("IllegalCallerException")) {
      why = "this JVM denies native access";
      remedy = NativeBackend.ALLOW;
    } else if (all.contains("sun/misc/Unsafe") || all.contains("sun.misc.Unsafe")) {
      why = "this Java runtime has no module jdk.unsupported, which jffi needs";
      remedy = "add jdk.unsupported to the modules that jlink puts into the runtime";
    } else {
      // One line: the loader says the same for each way that it tries.
      why = String.valueOf(e.getMessage()).lines().findFirst().orElse("without a reason");
      remedy = otherwise;
    }
    return new SystemErrorException(
        ErrorId.LIBRARY,
        "the native library %s cannot be loaded (%s)".formatted(name, why),
        remedy,
        e);
  }
}
