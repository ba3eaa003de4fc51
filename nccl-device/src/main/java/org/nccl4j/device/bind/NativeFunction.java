package org.nccl4j.device.bind;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.Arrays;
import java.util.function.LongConsumer;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.SystemErrorException;

/**
 * Native functions by their addresses, and functions of Java that native code calls. Any thread.
 */
public final class NativeFunction {
  private static final boolean FOREIGN = NativeBackend.FOREIGN;
  private static final MethodHandle THREE =
      handle(int.class, /* errno= */ false, long.class, long.class, long.class);
  private static final MethodHandle INT_SECOND =
      handle(int.class, /* errno= */ false, long.class, int.class, long.class);
  private static final MethodHandle SIX =
      handle(
          long.class,
          /* errno= */ true,
          long.class,
          long.class,
          long.class,
          long.class,
          long.class,
          long.class);

  private static final MethodHandle EIGHT = handle(int.class, /* errno= */ true, eight());

  private NativeFunction() {}

  private static Class<?>[] eight() {
    Class<?>[] words = new Class<?>[8];
    Arrays.fill(words, long.class);
    return words;
  }

  private static MethodHandle handle(Class<?> result, boolean errno, Class<?>... arguments) {
    return FOREIGN && NativeBackend.ADDRESSES
        ? ForeignAccess.downcall(MethodType.methodType(result, arguments), errno)
        : null;
  }

  /** The address of a library's function; 0 if there is none. */
  public static long find(NativeNames names, String function) {
    if (!NativeBackend.ADDRESSES) {
      return 0;
    }
    for (String file : names.files()) {
      long found = 0;
      if (FOREIGN) {
        Object library = ForeignAccess.open(file);
        found = library == null ? 0 : ForeignAccess.symbol(library, function);
      } else if (!file.isEmpty()) {
        found = Jffi.symbol(file, function);
      }
      if (found != 0) {
        return found;
      }
    }
    return 0;
  }

  /**
   * The address of a function or of data in a library; 0 if it has none of this name.
   *
   * @param file the library's file name or path
   * @throws SystemErrorException if there is no such library, or it cannot be loaded
   */
  public static long find(String file, String symbol) {
    return NativeLibrary.symbol(file, symbol);
  }

  /** Calls a function of three words. */
  @HotPath
  public static int call(long function, long first, long second, long third) {
    if (!FOREIGN) {
      return Jffi.call(function, first, second, third);
    }
    try {
      return (int) THREE.invokeExact(function, first, second, third);
    } catch (Throwable e) {
      throw ForeignAccess.unexpected(e);
    }
  }

  /** Calls a function of a word, an int and a word. */
  @HotPath
  public static int call(long function, long first, int second, long third) {
    if (!FOREIGN) {
      return Jffi.call(function, first, second, third);
    }
    try {
      return (int) INT_SECOND.invokeExact(function, first, second, third);
    } catch (Throwable e) {
      throw ForeignAccess.unexpected(e);
    }
  }

  /** Calls a function of six words that sets {@link NativeLibrary#errno}. */
  @HotPath
  public static long call(long function, long a, long b, long c, long d, long e, long f) {
    if (!FOREIGN) {
      return Jffi.call(function, a, b, c, d, e, f);
    }
    try {
      return (long) SIX.invokeExact(function, a, b, c, d, e, f);
    } catch (Throwable thrown) {
      throw ForeignAccess.unexpected(thrown);
    }
  }

  /**
   * Calls a function of at most eight words, which leaves those that it does not have alone, and
   * may set {@link NativeLibrary#errno}.
   */
  @HotPath
  public static int call(
      long function, long a, long b, long c, long d, long e, long f, long g, long h) {
    if (!FOREIGN) {
      return Jffi.call(function, a, b, c, d, e, f, g, h);
    }
    try {
      return (int) EIGHT.invokeExact(function, a, b, c, d, e, f, g, h);
    } catch (Throwable thrown) {
      throw ForeignAccess.unexpected(thrown);
    }
  }

  /**
   * A function of three words whose address stays. Unlike {@link #call(long, long, long, long)}
   * with java.lang.foreign, its calls make no object of the address, also before they are compiled.
   */
  public static final class OfThree {
    private final long address;
    private final MethodHandle handle; // null with jffi

    /** The function at an address. */
    public OfThree(long address) {
      MethodType type = MethodType.methodType(int.class, long.class, long.class, long.class);
      this.address = address;
      this.handle = FOREIGN ? ForeignAccess.downcall(address, type, /* errno= */ false) : null;
    }

    /** Calls it. */
    @HotPath
    public int call(long first, long second, long third) {
      if (!FOREIGN) {
        return Jffi.call(address, first, second, third);
      }
      try {
        return (int) handle.invokeExact(first, second, third);
      } catch (Throwable e) {
        throw ForeignAccess.unexpected(e);
      }
    }
  }

  /** A function of four words whose address stays; as {@link OfThree}. */
  public static final class OfFour {
    private final long address;
    private final MethodHandle handle; // null with jffi

    /** The function at an address. */
    public OfFour(long address) {
      MethodType type =
          MethodType.methodType(int.class, long.class, long.class, long.class, long.class);
      this.address = address;
      this.handle = FOREIGN ? ForeignAccess.downcall(address, type, /* errno= */ false) : null;
    }

    /** Calls it. */
    @HotPath
    public int call(long first, long second, long third, long fourth) {
      if (!FOREIGN) {
        return Jffi.call(address, first, second, third, fourth);
      }
      try {
        return (int) handle.invokeExact(first, second, third, fourth);
      } catch (Throwable e) {
        throw ForeignAccess.unexpected(e);
      }
    }
  }

  /** A C function of five words or fewer, for as long as the process lives. */
  public static long callback(NativeCallback target) {
    if (!FOREIGN) {
      return Jffi.callback(target);
    }
    try {
      MethodType type =
          MethodType.methodType(
              int.class, long.class, long.class, long.class, long.class, long.class);
      return ForeignAccess.upcall(
          MethodHandles.lookup().findVirtual(NativeCallback.class, "call", type).bindTo(target));
    } catch (ReflectiveOperationException e) {
      throw new LinkageError("a callback cannot be made", e);
    }
  }

  /**
   * A C function of one word, without a result, for as long as the process lives.
   *
   * @param target must throw nothing
   */
  public static long callback(LongConsumer target) {
    if (!FOREIGN) {
      return Jffi.callback(target);
    }
    try {
      return ForeignAccess.upcall(
          MethodHandles.lookup()
              .findVirtual(
                  LongConsumer.class, "accept", MethodType.methodType(void.class, long.class))
              .bindTo(target));
    } catch (ReflectiveOperationException e) {
      throw new LinkageError("a callback cannot be made", e);
    }
  }
}
