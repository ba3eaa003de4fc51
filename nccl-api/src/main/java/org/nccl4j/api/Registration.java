package org.nccl4j.api;

import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.api.window.LocalRegistration;
import org.nccl4j.device.DeviceMemory;

/**
 * Memory that one rank registered with a communicator ({@link Communicator#register}); NCCL's
 * handle of ncclCommRegister. Any thread may call any method.
 */
public final class Registration {
  private final CommunicatorState owner;
  private final LocalRegistration registered;

  Registration(CommunicatorState owner, LocalRegistration registered) {
    this.owner = owner;
    this.registered = registered;
  }

  /** The memory, as it was registered. */
  public DeviceMemory memory() {
    return registered.memory();
  }

  /** Whether it can still be used: until it is deregistered or the communicator is closed. */
  public boolean isRegistered() {
    return !registered.isDropped();
  }

  /** Whether operations on it may go straight between the ranks' memories. */
  public boolean isMapped() {
    return isRegistered() && obstacle().isEmpty();
  }

  /**
   * Why operations on it go the way of buffers that are not registered, such as memory that other
   * ranks cannot map, or that no operation has used it yet; empty if they need not.
   */
  public String obstacle() {
    return registered.obstacle();
  }

  LocalRegistration registered() {
    return registered;
  }

  @Override
  public String toString() {
    return "%s, registered with communicator %s".formatted(memory(), owner.name());
  }
}
