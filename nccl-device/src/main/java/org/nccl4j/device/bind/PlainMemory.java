package org.nccl4j.device.bind;

import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.concurrent.ConcurrentSkipListMap;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;

/**
 * Finds direct buffers by their addresses, where native access is denied and memory cannot be
 * accessed by address. Any thread.
 */
final class PlainMemory {
  private static final ConcurrentSkipListMap<Long, WeakReference<ByteBuffer>> BUFFERS =
      new ConcurrentSkipListMap<>();

  private PlainMemory() {}

  /**
   * Makes a buffer known for as long as it is reachable. Of two at an address the larger counts.
   */
  static void register(long address, ByteBuffer direct) {
    BUFFERS.merge(
        address,
        new WeakReference<>(direct),
        (old, made) -> {
          ByteBuffer other = old.get();
          return other == null || other.capacity() < direct.capacity() ? made : old;
        });
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
    throw new SystemErrorException(
        ErrorId.LIBRARY,
        "memory at 0x%x cannot be used by its address: this JVM denies native access"
            .formatted(address),
        NativeBackend.ALLOW);
  }

  static void copy(long from, long to, long bytes) {
    buffer(to, bytes).put(buffer(from, bytes));
  }
}
