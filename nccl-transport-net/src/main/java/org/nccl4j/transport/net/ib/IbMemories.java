package org.nccl4j.transport.net.ib;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.support.CloseAll;
import org.nccl4j.transport.net.ib.device.OpenDevice;

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
   * Registers all with other devices, too.
   *
   * @throws org.nccl4j.device.NcclException if one does not take one of them; then they have none
   */
  void prepare(List<OpenDevice> devices, boolean relaxed) {
    open.removeIf(IbMemory::isClosed);
    boolean all = false;
    try {
      open.forEach(memory -> memory.prepare(devices, relaxed));
      all = true;
    } finally {
      if (!all) {
        open.forEach(IbMemory::stay);
      }
    }
  }

  /** Keeps to those devices from now on. */
  void move() {
    open.forEach(IbMemory::move);
  }

  void close() {
    CloseAll.each(open, IbMemory::close);
  }
}
