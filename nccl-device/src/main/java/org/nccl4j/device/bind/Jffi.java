package org.nccl4j.device.bind;

import com.kenai.jffi.CallContext;
import com.kenai.jffi.CallingConvention;
import com.kenai.jffi.Closure;
import com.kenai.jffi.ClosureManager;
import com.kenai.jffi.HeapInvocationBuffer;
import com.kenai.jffi.Invoker;
import com.kenai.jffi.LastError;
import com.kenai.jffi.Library;
import com.kenai.jffi.MemoryIO;
import com.kenai.jffi.Type;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.LongConsumer;
import jnr.ffi.LibraryLoader;
import org.nccl4j.device.HotPath;

/** Native calls and memory through jnr-ffi and jffi. Not loaded with foreign functions. */
final class Jffi {
  private static final String STUBS = "jnr.ffi.x86asm.enabled";

  static {
    withoutStubs();
    JffiCleaner.withoutThread();
  }

  private static final MemoryIO MEMORY = MemoryIO.getInstance();
  private static final Invoker INVOKER = Invoker.getInstance();
  private static final CallContext THREE =
      context(Type.SINT, /* errno= */ false, Type.SINT64, Type.SINT64, Type.SINT64);
  private static final CallContext FOUR = context(Type.SINT, /* errno= */ false, integers(4));
  private static final CallContext INT_SECOND =
      context(Type.SINT, /* errno= */ false, Type.SINT64, Type.SINT, Type.SINT64);
  private static final CallContext SIX = context(Type.SINT64, /* errno= */ true, integers(6));

  private static final CallContext EIGHT = context(Type.SINT, /* errno= */ true, integers(8));

  private static final List<Library> KEPT = new ArrayList<>();

  private Jffi() {}

  /**
   * Has this copy of jnr-ffi go without its own x86 stubs: they pass the return address as the
   * sixth of exactly six integer arguments (every version up to 2.3.4), as cuMulticastBindMem has.
   * The property is the process's, so it is set only while the class that reads it is loaded.
   */
  private static void withoutStubs() {
    String before = System.setProperty(STUBS, "false");
    try {
      Class.forName(
          "jnr.ffi.provider.jffi.X86MethodGenerator", true, LibraryLoader.class.getClassLoader());
    } catch (ClassNotFoundException e) {
      return; // another version, which may read it later
    }
    if (before == null) {
      System.clearProperty(STUBS);
    } else {
      System.setProperty(STUBS, before);
    }
  }

  private static Type[] integers(int n) {
    Type[] integers = new Type[n];
    Arrays.fill(integers, Type.SINT64);
    return integers;
  }

  static CallContext context(Type result, boolean errno, Type... arguments) {
    return CallContext.getCallContext(result, arguments, CallingConvention.DEFAULT, errno);
  }

  static Object probe() {
    return MEMORY;
  }

  static <T> T load(Class<T> type, String name) {
    return LibraryLoader.create(type).failImmediately().load(name);
  }

  static int errno() {
    return LastError.getInstance().get();
  }

  static long symbol(String file, String name) {
    Library library = Library.getCachedInstance(file, Library.LAZY);
    return library == null ? 0 : library.getSymbolAddress(name);
  }

  /** The same, with the loader's reason if there is no library. */
  static long symbolOrReason(String file, String name) {
    Library library = Library.openLibrary(file, Library.LAZY | Library.LOCAL);
    if (library == null) {
      throw new UnsatisfiedLinkError(Library.getLastError());
    }
    return library.getSymbolAddress(name);
  }

  /** Loads a library, which its object would close when it is collected. */
  static void keep(String file) {
    Library library = Library.openLibrary(file, Library.LAZY | Library.LOCAL);
    if (library == null) {
      throw new UnsatisfiedLinkError(Library.getLastError());
    }
    synchronized (KEPT) {
      KEPT.add(library);
    }
  }

  @HotPath
  static int call(long function, long first, long second, long third) {
    return (int) INVOKER.invokeN3(THREE, function, first, second, third);
  }

  @HotPath
  static int call(long function, long first, long second, long third, long fourth) {
    return (int) INVOKER.invokeN4(FOUR, function, first, second, third, fourth);
  }

  @HotPath
  static int call(long function, long first, int second, long third) {
    return (int) INVOKER.invokeN3(INT_SECOND, function, first, second, third);
  }

  @HotPath
  static long call(long function, long a, long b, long c, long d, long e, long f) {
    return INVOKER.invokeN6(SIX, function, a, b, c, d, e, f);
  }

  /** Allocates: jffi has no call of plain numbers with more than six. */
  static int call(long function, long a, long b, long c, long d, long e, long f, long g, long h) {
    HeapInvocationBuffer words = new HeapInvocationBuffer(EIGHT);
    words.putLong(a);
    words.putLong(b);
    words.putLong(c);
    words.putLong(d);
    words.putLong(e);
    words.putLong(f);
    words.putLong(g);
    words.putLong(h);
    return INVOKER.invokeInt(EIGHT, function, words);
  }

  static long callback(NativeCallback target) {
    Type[] words = new Type[5];
    Arrays.fill(words, Type.SINT64);
    Closure.Handle handle =
        ClosureManager.getInstance()
            .newClosure(
                arguments ->
                    arguments.setIntReturn(
                        target.call(
                            arguments.getLong(0),
                            arguments.getLong(1),
                            arguments.getLong(2),
                            arguments.getLong(3),
                            arguments.getLong(4))),
                Type.SINT,
                words,
                CallingConvention.DEFAULT);
    handle.setAutoRelease(false);
    return handle.getAddress();
  }

  static long callback(LongConsumer target) {
    Closure.Handle handle =
        ClosureManager.getInstance()
            .newClosure(
                arguments -> target.accept(arguments.getAddress(0)),
                Type.VOID,
                new Type[] {Type.POINTER},
                CallingConvention.DEFAULT);
    handle.setAutoRelease(false);
    return handle.getAddress();
  }

  static long addressOf(ByteBuffer direct) {
    return MEMORY.getDirectBufferAddress(direct);
  }

  static ByteBuffer buffer(long address, int bytes) {
    return MEMORY.newDirectByteBuffer(address, bytes);
  }

  @HotPath
  static void copy(long from, long to, long bytes) {
    MEMORY.memmove(to, from, bytes);
  }

  @HotPath
  static byte getByte(long address) {
    return MEMORY.getByte(address);
  }

  @HotPath
  static int getInt(long address) {
    return MEMORY.getInt(address);
  }

  @HotPath
  static long getLong(long address) {
    return MEMORY.getLong(address);
  }

  @HotPath
  static void putByte(long address, byte value) {
    MEMORY.putByte(address, value);
  }

  @HotPath
  static void putInt(long address, int value) {
    MEMORY.putInt(address, value);
  }

  @HotPath
  static void putLong(long address, long value) {
    MEMORY.putLong(address, value);
  }
}
