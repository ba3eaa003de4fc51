package org.nccl4j.device.bind;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.ref.Reference;
import java.lang.reflect.Array;
import java.lang.reflect.InvocationTargetException;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;

/**
 * The JDK's foreign functions (java.lang.foreign, Java 22), which code for Java 17 cannot name.
 * Only the set-up is reflective: calls and accesses are method handles of plain numbers.
 */
final class ForeignAccess {
  /** A pointer's address, at which any number of bytes may be read. */
  private static final long EVERYTHING = Long.MAX_VALUE;

  private static final int STATE_BYTES = 64;

  private static final Class<?> SEGMENT = type("MemorySegment");
  private static final Class<?> LAYOUT = type("MemoryLayout");
  private static final Class<?> LAYOUTS = type("MemoryLayout").arrayType();
  private static final Class<?> VALUE_LAYOUT = type("ValueLayout");
  private static final Class<?> LINKER = type("Linker");
  private static final Class<?> OPTION = type("Linker$Option");
  private static final Class<?> OPTIONS = OPTION.arrayType();
  private static final Class<?> DESCRIPTOR = type("FunctionDescriptor");
  private static final Class<?> LOOKUP = type("SymbolLookup");
  private static final Class<?> ARENA = type("Arena");

  private static final Object NATIVE_LINKER = call(LINKER, "nativeLinker", null);
  private static final Object FOREVER = call(ARENA, "global", null);

  /**
   * The thread's memory for errno, as a buffer and as a segment. An array of the JDK's types, which
   * keeps no class loader from being unloaded.
   */
  private static final ThreadLocal<Object[]> STATE = ThreadLocal.withInitial(ForeignAccess::state);

  private static final int ERRNO_OFFSET = errnoOffset();

  /** (Buffer)MemorySegment. */
  private static final MethodHandle OF_BUFFER = find(SEGMENT, "ofBuffer", SEGMENT, Buffer.class);

  /** (MemorySegment)long. */
  private static final MethodHandle ADDRESS_OF = virtual(SEGMENT, "address", long.class);

  /** (long)MemorySegment, of no bytes. */
  private static final MethodHandle OF_ADDRESS = find(SEGMENT, "ofAddress", SEGMENT, long.class);

  private ForeignAccess() {}

  private static Class<?> type(String name) {
    try {
      return Class.forName("java.lang.foreign." + name);
    } catch (ClassNotFoundException e) {
      throw new LinkageError("this JVM has no java.lang.foreign." + name, e);
    }
  }

  /** Calls a method by name; the arguments are pairs of a parameter's type and its value. */
  private static Object call(Class<?> owner, String name, Object target, Object... typed) {
    Class<?>[] types = new Class<?>[typed.length / 2];
    Object[] values = new Object[types.length];
    for (int i = 0; i < types.length; i++) {
      types[i] = (Class<?>) typed[2 * i];
      values[i] = typed[2 * i + 1];
    }
    try {
      return owner.getMethod(name, types).invoke(target, values);
    } catch (InvocationTargetException e) {
      throw rethrown(e.getCause());
    } catch (ReflectiveOperationException e) {
      throw new LinkageError("java.lang.foreign has another form", e);
    }
  }

  private static RuntimeException rethrown(Throwable cause) {
    if (cause instanceof Error error) {
      throw error;
    }
    return (RuntimeException) cause; // these methods declare no exception
  }

  private static MethodHandle find(Class<?> owner, String name, Class<?> result, Class<?>... of) {
    try {
      return MethodHandles.lookup().findStatic(owner, name, MethodType.methodType(result, of));
    } catch (ReflectiveOperationException e) {
      throw new LinkageError("java.lang.foreign has another form", e);
    }
  }

  private static MethodHandle virtual(Class<?> owner, String name, Class<?> result) {
    try {
      return MethodHandles.lookup().findVirtual(owner, name, MethodType.methodType(result));
    } catch (ReflectiveOperationException e) {
      throw new LinkageError("java.lang.foreign has another form", e);
    }
  }

  private static Object layout(String constant) {
    try {
      return VALUE_LAYOUT.getField(constant).get(null);
    } catch (ReflectiveOperationException e) {
      throw new LinkageError("java.lang.foreign has another form", e);
    }
  }

  private static Object[] state() {
    ByteBuffer memory = ByteBuffer.allocateDirect(STATE_BYTES).order(ByteOrder.nativeOrder());
    return new Object[] {memory, call(SEGMENT, "ofBuffer", null, Buffer.class, memory)};
  }

  private static int errnoOffset() {
    Class<?> element = type("MemoryLayout$PathElement");
    Object path = Array.newInstance(element, 1);
    Array.set(path, 0, call(element, "groupElement", null, String.class, "errno"));
    Object layout = call(OPTION, "captureStateLayout", null);
    return ((Long) call(LAYOUT, "byteOffset", layout, element.arrayType(), path)).intValue();
  }

  /** The error number that the thread's last call of a function with errno left. */
  static int errno() {
    return ((ByteBuffer) STATE.get()[0]).getInt(ERRNO_OFFSET);
  }

  static Object stateSegment() {
    return STATE.get()[1];
  }

  /**
   * Opens a library.
   *
   * @return a SymbolLookup, or null
   */
  static Object open(String name) {
    try {
      return name.isEmpty()
          ? call(LINKER, "defaultLookup", NATIVE_LINKER)
          : call(LOOKUP, "libraryLookup", null, String.class, name, ARENA, FOREVER);
    } catch (IllegalArgumentException e) {
      return null;
    }
  }

  /**
   * The reason why the loader does not open a library, from dlerror where the system has it. The
   * next dlopen of the thread frees dlerror's text, and the JVM may load libraries of its own when
   * the code that reads texts runs first. So that code reads a text before.
   */
  static String reason(String file) {
    Object process = call(LINKER, "defaultLookup", NATIVE_LINKER);
    long open = symbol(process, "dlopen");
    long error = symbol(process, "dlerror");
    if (open == 0 || error == 0) {
      return file + ": the loader finds no such library, or one that it cannot load";
    }
    try {
      MethodHandle opening =
          downcall(open, MethodType.methodType(long.class, String.class, int.class), false);
      MethodHandle failure = downcall(error, MethodType.methodType(String.class), false);
      Object name = text(file);
      string((long) ADDRESS_OF.invoke(name));
      Reference.reachabilityFence(name);
      long handle = (long) opening.invokeExact(file, 1); // RTLD_LAZY
      String why = (String) failure.invokeExact();
      return handle == 0 && why != null ? why : file + ": the JVM does not open it";
    } catch (Throwable e) {
      throw unexpected(e);
    }
  }

  /** The address of a library's function; 0 if it has none of this name. */
  static long symbol(Object library, String name) {
    Optional<?> found = (Optional<?>) call(LOOKUP, "find", library, String.class, name);
    return found.isEmpty() ? 0 : (Long) call(SEGMENT, "address", found.get());
  }

  /**
   * A handle that calls the function at an address. Of numbers and texts; a text given is copied
   * for the call.
   */
  static MethodHandle downcall(long address, MethodType type, boolean errno) {
    MethodHandle raw =
        (MethodHandle)
            call(
                LINKER,
                "downcallHandle",
                NATIVE_LINKER,
                SEGMENT,
                call(SEGMENT, "ofAddress", null, long.class, address),
                DESCRIPTOR,
                descriptor(type),
                OPTIONS,
                options(errno));
    return adapted(errno ? withState(raw) : raw, type);
  }

  /** The same with the function's address, a long, as the first argument. */
  static MethodHandle downcall(MethodType type, boolean errno) {
    MethodHandle raw =
        (MethodHandle)
            call(
                LINKER,
                "downcallHandle",
                NATIVE_LINKER,
                DESCRIPTOR,
                descriptor(type),
                OPTIONS,
                options(errno));
    if (errno) {
      raw = MethodHandles.collectArguments(raw, 1, stateGetter());
    }
    return MethodHandles.filterArguments(raw, 0, OF_ADDRESS);
  }

  private static MethodHandle withState(MethodHandle raw) {
    return MethodHandles.collectArguments(raw, 0, stateGetter());
  }

  private static MethodHandle stateGetter() {
    try {
      return MethodHandles.lookup()
          .findStatic(ForeignAccess.class, "stateSegment", MethodType.methodType(Object.class))
          .asType(MethodType.methodType(SEGMENT));
    } catch (ReflectiveOperationException e) {
      throw new LinkageError("stateSegment", e);
    }
  }

  private static MethodHandle adapted(MethodHandle raw, MethodType type) {
    try {
      MethodHandles.Lookup here = MethodHandles.lookup();
      MethodHandle handle = raw;
      for (int i = 0; i < type.parameterCount(); i++) {
        if (type.parameterType(i) == String.class) {
          MethodHandle text =
              here.findStatic(
                  ForeignAccess.class, "text", MethodType.methodType(Object.class, String.class));
          handle =
              MethodHandles.filterArguments(
                  handle, i, text.asType(MethodType.methodType(SEGMENT, String.class)));
        }
      }
      if (type.returnType() == String.class) {
        handle =
            MethodHandles.filterReturnValue(
                handle,
                here.findStatic(
                    ForeignAccess.class,
                    "string",
                    MethodType.methodType(String.class, long.class)));
      }
      return handle.asType(type);
    } catch (ReflectiveOperationException e) {
      throw new LinkageError("a handle for texts", e);
    }
  }

  /** The C text at an address; null at address 0. */
  static String string(long address) {
    if (address == 0) {
      return null;
    }
    Object segment = call(SEGMENT, "ofAddress", null, long.class, address);
    Object all = call(SEGMENT, "reinterpret", segment, long.class, EVERYTHING - address);
    return (String) call(SEGMENT, "getString", all, long.class, 0L);
  }

  /** An exception of a method handle, of which none declares one. */
  static RuntimeException unexpected(Throwable e) {
    if (e instanceof Error error) {
      throw error;
    }
    return e instanceof RuntimeException known ? known : new IllegalStateException(e);
  }

  /** A C text in memory that the segment keeps. */
  static Object text(String text) {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    ByteBuffer copy = ByteBuffer.allocateDirect(bytes.length + 1).put(bytes).rewind();
    return call(SEGMENT, "ofBuffer", null, Buffer.class, copy);
  }

  /** A C function that calls a handle, for as long as the process lives. */
  static long upcall(MethodHandle target) {
    Object stub =
        call(
            LINKER,
            "upcallStub",
            NATIVE_LINKER,
            MethodHandle.class,
            target,
            DESCRIPTOR,
            descriptor(target.type()),
            ARENA,
            FOREVER,
            OPTIONS,
            Array.newInstance(OPTION, 0));
    return (Long) call(SEGMENT, "address", stub);
  }

  private static Object options(boolean errno) {
    if (!errno) {
      return Array.newInstance(OPTION, 0);
    }
    Object options = Array.newInstance(OPTION, 1);
    Array.set(
        options, 0, call(OPTION, "captureCallState", null, String[].class, new String[] {"errno"}));
    return options;
  }

  private static Object descriptor(MethodType type) {
    List<Object> parameters = new ArrayList<>();
    type.parameterList().forEach(each -> parameters.add(layoutOf(each, /* result= */ false)));
    Object layouts = Array.newInstance(LAYOUT, parameters.size());
    for (int i = 0; i < parameters.size(); i++) {
      Array.set(layouts, i, parameters.get(i));
    }
    return type.returnType() == void.class
        ? call(DESCRIPTOR, "ofVoid", null, LAYOUTS, layouts)
        : call(
            DESCRIPTOR,
            "of",
            null,
            LAYOUT,
            layoutOf(type.returnType(), /* result= */ true),
            LAYOUTS,
            layouts);
  }

  private static Object layoutOf(Class<?> type, boolean result) {
    if (type == int.class) {
      return layout("JAVA_INT");
    }
    if (type == long.class || type == String.class && result) {
      return layout("JAVA_LONG");
    }
    if (type == double.class) {
      return layout("JAVA_DOUBLE");
    }
    if (type == String.class) {
      return layout("ADDRESS");
    }
    throw new LinkageError("a native function cannot take " + type);
  }

  static Object probe() {
    return everything();
  }

  /**
   * Refuses where calls would be refused: the process's own functions are found without access.
   *
   * @throws IllegalCallerException if native access is denied
   */
  static void requireAccess() {
    everything();
  }

  /** (Buffer)long: the address of a direct buffer's position. */
  static MethodHandle addressOfBuffer() {
    return MethodHandles.filterReturnValue(OF_BUFFER, ADDRESS_OF);
  }

  /** All memory, or an IllegalCallerException where native access is denied. */
  private static Object everything() {
    return call(
        SEGMENT,
        "reinterpret",
        call(SEGMENT, "ofAddress", null, long.class, 0L),
        long.class,
        EVERYTHING);
  }

  /** Bytes at an address as a direct buffer. */
  static ByteBuffer buffer(long address, long bytes) {
    Object segment = call(SEGMENT, "ofAddress", null, long.class, address);
    Object sized = call(SEGMENT, "reinterpret", segment, long.class, bytes);
    return (ByteBuffer) call(SEGMENT, "asByteBuffer", sized);
  }

  /** (long source, long target, long bytes)void. */
  static MethodHandle copy() {
    Object all = everything();
    MethodHandle copy =
        find(SEGMENT, "copy", void.class, SEGMENT, long.class, SEGMENT, long.class, long.class);
    return MethodHandles.insertArguments(MethodHandles.insertArguments(copy, 2, all), 0, all);
  }

  /** (long)T: reads a number at an address. */
  static MethodHandle get(Class<?> number) {
    return access(number, "get", MethodType.methodType(number, long.class));
  }

  /** (long, T)void: stores a number at an address. */
  static MethodHandle set(Class<?> number) {
    return access(number, "set", MethodType.methodType(void.class, long.class, number));
  }

  private static MethodHandle access(Class<?> number, String name, MethodType type) {
    Object layout =
        layout(number == byte.class ? "JAVA_BYTE" : "JAVA_" + name(number) + "_UNALIGNED");
    Class<?> layoutType = layoutType(number);
    try {
      MethodHandle method =
          MethodHandles.lookup()
              .findVirtual(SEGMENT, name, type.insertParameterTypes(0, layoutType));
      return MethodHandles.insertArguments(method, 0, everything(), layout);
    } catch (ReflectiveOperationException e) {
      throw new LinkageError("java.lang.foreign has another form", e);
    }
  }

  private static Class<?> layoutType(Class<?> number) {
    String name = name(number);
    return type("ValueLayout$Of" + name.charAt(0) + name.substring(1).toLowerCase(Locale.ROOT));
  }

  private static String name(Class<?> number) {
    return number.getName().toUpperCase(Locale.ROOT);
  }
}
