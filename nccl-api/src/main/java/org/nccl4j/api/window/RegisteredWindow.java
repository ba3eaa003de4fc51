package org.nccl4j.api.window;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.device.symmetric.WindowView;

/** One window of a communicator, on this rank. */
public final class RegisteredWindow {
  private final WindowView view;
  private final P2pWork.Offer offer;
  private final SymmetricMemory memory;
  private final DeviceMemory user;

  /** Whether operations that may not have ended use it. */
  private volatile boolean used;

  private volatile boolean dropped;

  RegisteredWindow(WindowView view, SymmetricMemory memory, DeviceMemory user) {
    this.view = view;
    this.offer = new P2pWork.Offer(view);
    this.memory = memory;
    this.user = user;
  }

  /** Its number in the communicator: 1, 2 and so on in order of registration. */
  public long number() {
    return view.number();
  }

  /** What a send or receive says of it. */
  public P2pWork.Offer offer() {
    return offer;
  }

  /** As kernels see it. */
  public WindowView view() {
    return view;
  }

  /** The memory that was registered. */
  public DeviceMemory memory() {
    return user;
  }

  SymmetricMemory mapped() {
    return memory;
  }

  /** An operation on it has been launched. */
  public void use() {
    used = true;
  }

  boolean isUsed() {
    return used;
  }

  void settle() {
    used = false;
  }

  /** Whether it has been deregistered. */
  public boolean isDropped() {
    return dropped;
  }

  void drop() {
    dropped = true;
  }
}
