package org.nccl4j.api;

import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.api.window.LocalRegistration;
import org.nccl4j.device.DeviceMemory;

/**
 * Memory that one rank has registered with a communicator ({@link Communicator#register}).
 * Corresponds to the handle of ncclCommRegister. Any thread may call any method.
 */
public final class Registration {
  private final CommunicatorState owner;
  private final LocalRegistration registered;

  Registration(CommunicatorState owner, LocalRegistration registered) {
    this.owner = owner;
    this.registered = registered;
  }

  /** The registered memory. */
  public DeviceMemory memory() {
    return registered.memory();
  }

  /** True until it is deregistered or the communicator is closed. */
  public boolean isRegistered() {
    return !registered.isDropped();
  }

  /** True if operations may move data directly between the ranks' memories. */
  public boolean isMapped() {
    return isRegistered() && obstacle().isEmpty();
  }

  /**
   * The reason why operations treat the memory as not registered, such as memory that other ranks
   * cannot map, or that no operation has used it yet; empty otherwise.
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
