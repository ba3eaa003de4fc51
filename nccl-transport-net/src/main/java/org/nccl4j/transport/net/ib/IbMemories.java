package org.nccl4j.transport.net.ib;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.transport.net.ib.device.RegistrationCache;

/**
 * The memory that is registered for one end. Owned by the thread that has the connection's turn.
 */
final class IbMemories {
  private final List<IbMemory> open = new ArrayList<>();

  IbMemory add(IbMemory memory) {
    open.removeIf(IbMemory::isClosed);
    open.add(memory);
    return memory;
  }

  /**
   * Registers all with another device, too.
   *
   * @throws org.nccl4j.device.NcclException if it does not take one of them; then it has none
   */
  void prepare(RegistrationCache cache, boolean relaxed) {
    open.removeIf(IbMemory::isClosed);
    boolean all = false;
    try {
      open.forEach(memory -> memory.prepare(cache, relaxed));
      all = true;
    } finally {
      if (!all) {
        open.forEach(IbMemory::stay);
      }
    }
  }

  /** Keeps to that device from now on. */
  void move() {
    open.forEach(IbMemory::move);
  }

  void close() {
    open.forEach(IbMemory::close);
  }
}
