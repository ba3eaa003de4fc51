package org.nccl4j.device.bind;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.ref.WeakReference;
import java.lang.reflect.Field;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.concurrent.ConcurrentSkipListMap;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;

/**
 * Finds direct buffers by their addresses, where memory cannot be accessed by address: native
 * access is denied, or jffi is needed and cannot be loaded. Needs no native library. Any thread.
 */
final class PlainMemory {
  private static final ConcurrentSkipListMap<Long, WeakReference<ByteBuffer>> BUFFERS =
      new ConcurrentSkipListMap<>();

  /**
   * (Buffer)long. From Java 22 on, of java.lang.foreign: the address of the position. Before, of
   * the JDK's Unsafe, which that Java has without a warning: the address of the first byte.
   */
  private static final MethodHandle ADDRESS;

  private static final boolean OF_POSITION = Runtime.version().feature() >= 22;

  static {
    ADDRESS = OF_POSITION ? ForeignAccess.addressOfBuffer() : fieldOfBuffer();
    SystemErrorException reason = NativeBackend.unavailable();
    DebugLog.of("INIT")
        .log(
            System.Logger.Level.WARNING,
            "{0}: ranks share memory with those of their own process alone, and reach other"
                + " processes over sockets (nccl-transport-net). Remedy: {1}",
            reason.problem(),
            reason.remedy());
  }

  private PlainMemory() {}

  private static MethodHandle fieldOfBuffer() {
    try {
      Class<?> type = Class.forName("sun.misc.Unsafe");
      Field instance = type.getDeclaredField("theUnsafe");
      instance.setAccessible(true);
      Object unsafe = instance.get(null);
      Object offset =
          type.getMethod("objectFieldOffset", Field.class)
              .invoke(unsafe, Buffer.class.getDeclaredField("address"));
      MethodHandle get =
          MethodHandles.publicLookup()
              .findVirtual(
                  type, "getLong", MethodType.methodType(long.class, Object.class, long.class))
              .bindTo(unsafe);
      return MethodHandles.insertArguments(get, 1, offset)
          .asType(MethodType.methodType(long.class, Buffer.class));
    } catch (ReflectiveOperationException e) {
      throw new LinkageError("this JVM tells no addresses of buffers without jffi", e);
    }
  }

  /**
   * The address of a direct buffer's first byte. The buffer is known by it for as long as it is
   * reachable. Of two at an address the larger counts.
   */
  static long addressOf(ByteBuffer direct) {
    long address;
    try {
      address = (long) ADDRESS.invokeExact((Buffer) direct);
    } catch (Throwable e) {
      throw new LinkageError("the address of a buffer", e);
    }
    if (OF_POSITION) {
      address -= direct.position();
    }
    BUFFERS.merge(
        address,
        new WeakReference<>(direct),
        (old, made) -> {
          ByteBuffer other = old.get();
          return other == null || other.capacity() < direct.capacity() ? made : old;
        });
    return address;
  }

  /** A view of registered memory, which keeps it. */
  static ByteBuffer buffer(long address, long bytes) {
    for (Map.Entry<Long, WeakReference<ByteBuffer>> entry :
        BUFFERS.headMap(address, true).descendingMap().entrySet()) {
      ByteBuffer found = entry.getValue().get();
      if (found == null) {
        BUFFERS.remove(entry.getKey(), entry.getValue());
      } else if (address + bytes <= entry.getKey() + found.capacity()) {
        return found.duplicate().clear().slice((int) (address - entry.getKey()), (int) bytes);
      }
    }
    SystemErrorException reason = NativeBackend.unavailable();
    throw new SystemErrorException(
        ErrorId.LIBRARY,
        "memory at 0x%x cannot be used by its address: %s".formatted(address, reason.problem()),
        reason.remedy());
  }

  static void copy(long from, long to, long bytes) {
    buffer(to, bytes).put(buffer(from, bytes));
  }
}
