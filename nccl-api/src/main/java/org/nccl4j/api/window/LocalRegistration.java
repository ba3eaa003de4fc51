package org.nccl4j.api.window;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.host.RegisteredMemory;

/**
 * Memory that one rank registered by itself. Its state is written under the lock of {@link
 * Registrations} and read by any thread.
 */
public final class LocalRegistration {
  private static final String UNUSED = "no operation has used it";

  private final DeviceMemory memory;
  private final RegisteredMemory registered;
  private final List<RegisteredWindow> windows = new ArrayList<>();
  private volatile String obstacle;
  private volatile boolean dropped;

  LocalRegistration(DeviceMemory memory, String obstacle) {
    this.memory = memory;
    this.registered = RegisteredMemory.of(memory);
    this.obstacle = obstacle;
  }

  /** Returns the registered memory. */
  public DeviceMemory memory() {
    return memory;
  }

  /** Why operations go the way of buffers that are not registered; empty if they need not. */
  public String obstacle() {
    return obstacle == null ? UNUSED : obstacle;
  }

  /** True if it has been deregistered, or its communicator closed. */
  public boolean isDropped() {
    return dropped;
  }

  /** True if the ranks have yet to find out whether they can use it. */
  boolean isPending() {
    return obstacle == null;
  }

  boolean holds(long address, long bytes) {
    return memory.address() <= address
        && bytes <= memory.size() - (address - memory.address())
        && memory.isOpen();
  }

  void mapped(RegisteredWindow window) {
    windows.add(window);
    obstacle = "";
  }

  void refused(String why) {
    if (windows.isEmpty()) {
      obstacle = why;
    }
  }

  List<RegisteredWindow> windows() {
    return windows;
  }

  void drop() {
    dropped = true;
    registered.close();
  }
}
