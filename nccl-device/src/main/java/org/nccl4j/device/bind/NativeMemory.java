package org.nccl4j.device.bind;

import java.lang.invoke.MethodHandle;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.nccl4j.device.HotPath;

/**
 * Memory by its address. An address that is not mapped ends the process. Any thread; accesses are
 * plain, without an order.
 */
public final class NativeMemory {
  /**
   * From here on the C library's copy is worth its call, beside the JVM's: for large copies it has
   * other instructions, such as streaming stores.
   */
  static final long MANY_BYTES = 8 << 10;

  private static final boolean FOREIGN = NativeBackend.FOREIGN;
  private static final boolean PLAIN = !NativeBackend.ADDRESSES;
  private static final MethodHandle ADDRESS = FOREIGN ? ForeignAccess.addressOfBuffer() : null;

  /** Handles that need native access; apart, since addresses of buffers need none. */
  private static final class Handles {
    static final MethodHandle COPY = ForeignAccess.copy();

    /** (to, from, bytes); null if the C library has none. */
    static final NativeFunction.OfThree MOVE = move();

    static final MethodHandle GET_BYTE = ForeignAccess.get(byte.class);
    static final MethodHandle GET_INT = ForeignAccess.get(int.class);
    static final MethodHandle GET_LONG = ForeignAccess.get(long.class);
    static final MethodHandle SET_BYTE = ForeignAccess.set(byte.class);
    static final MethodHandle SET_INT = ForeignAccess.set(int.class);
    static final MethodHandle SET_LONG = ForeignAccess.set(long.class);
  }

  private static NativeFunction.OfThree move() {
    long address = NativeFunction.find(NativeNames.LIBC, "memmove");
    return address == 0 ? null : new NativeFunction.OfThree(address);
  }

  private NativeMemory() {}

  /**
   * True if memory can be accessed by address; false where native access is denied, or jffi is
   * needed and cannot be loaded.
   */
  public static boolean hasAddresses() {
    return !PLAIN;
  }

  /** The address of a direct buffer's first byte, whatever its position. */
  public static long addressOf(ByteBuffer direct) {
    if (PLAIN) {
      return PlainMemory.addressOf(direct);
    }
    if (!FOREIGN) {
      return Jffi.addressOf(direct);
    }
    try {
      return (long) ADDRESS.invokeExact((Buffer) direct) - direct.position();
    } catch (Throwable e) {
      throw ForeignAccess.unexpected(e);
    }
  }

  /** A view of bytes at an address, in big-endian order. It does not keep the memory. */
  public static ByteBuffer buffer(long address, int bytes) {
    if (PLAIN) {
      return PlainMemory.buffer(address, bytes);
    }
    return FOREIGN ? ForeignAccess.buffer(address, bytes) : Jffi.buffer(address, bytes);
  }

  /** Copies bytes between addresses; the ranges may overlap. */
  @HotPath
  public static void copy(long from, long to, long bytes) {
    if (PLAIN) {
      PlainMemory.copy(from, to, bytes);
    } else if (!FOREIGN) {
      Jffi.copy(from, to, bytes);
    } else if (bytes >= MANY_BYTES && Handles.MOVE != null) {
      Handles.MOVE.call(to, from, bytes);
    } else {
      try {
        Handles.COPY.invokeExact(from, to, bytes);
      } catch (Throwable e) {
        throw ForeignAccess.unexpected(e);
      }
    }
  }

  @HotPath
  public static byte getByte(long address) {
    if (!FOREIGN) {
      return Jffi.getByte(address);
    }
    try {
      return (byte) Handles.GET_BYTE.invokeExact(address);
    } catch (Throwable e) {
      throw ForeignAccess.unexpected(e);
    }
  }

  @HotPath
  public static int getInt(long address) {
    if (!FOREIGN) {
      return Jffi.getInt(address);
    }
    try {
      return (int) Handles.GET_INT.invokeExact(address);
    } catch (Throwable e) {
      throw ForeignAccess.unexpected(e);
    }
  }

  @HotPath
  public static long getLong(long address) {
    if (!FOREIGN) {
      return Jffi.getLong(address);
    }
    try {
      return (long) Handles.GET_LONG.invokeExact(address);
    } catch (Throwable e) {
      throw ForeignAccess.unexpected(e);
    }
  }

  @HotPath
  public static void putByte(long address, byte value) {
    if (!FOREIGN) {
      Jffi.putByte(address, value);
      return;
    }
    try {
      Handles.SET_BYTE.invokeExact(address, value);
    } catch (Throwable e) {
      throw ForeignAccess.unexpected(e);
    }
  }

  @HotPath
  public static void putInt(long address, int value) {
    if (!FOREIGN) {
      Jffi.putInt(address, value);
      return;
    }
    try {
      Handles.SET_INT.invokeExact(address, value);
    } catch (Throwable e) {
      throw ForeignAccess.unexpected(e);
    }
  }

  @HotPath
  public static void putLong(long address, long value) {
    if (!FOREIGN) {
      Jffi.putLong(address, value);
      return;
    }
    try {
      Handles.SET_LONG.invokeExact(address, value);
    } catch (Throwable e) {
      throw ForeignAccess.unexpected(e);
    }
  }

  /** The C text at an address; null at address 0. */
  public static String string(long address) {
    if (address == 0) {
      return null;
    }
    int length = 0;
    while (getByte(address + length) != 0) {
      length++;
    }
    byte[] text = new byte[length];
    for (int i = 0; i < length; i++) {
      text[i] = getByte(address + i);
    }
    return new String(text, StandardCharsets.UTF_8);
  }
}
