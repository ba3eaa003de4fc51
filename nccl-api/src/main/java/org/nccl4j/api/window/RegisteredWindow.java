package org.nccl4j.api.window;

import java.util.function.Supplier;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.host.RegisteredMemory;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.device.symmetric.WindowView;

/** One window of a communicator, on this rank. */
public final class RegisteredWindow {
  private volatile WindowView view;
  private final P2pWork.Offer offer;
  private final SymmetricMemory memory;
  private final long offset;
  private final DeviceMemory user;
  private final RegisteredMemory registered;
  private final boolean forCollectives;

  /** The number of the last launch that uses it; 0 for none. */
  private volatile long used;

  private volatile boolean dropped;

  /** Memory that the window's user has made for kernels; freed with the window. */
  private DeviceMemory handle;

  /**
   * A window.
   *
   * @param offset of its first byte in the memory
   * @param forCollectives as {@link #isForCollectives} gives it
   */
  RegisteredWindow(
      WindowView view,
      SymmetricMemory memory,
      long offset,
      DeviceMemory user,
      boolean forCollectives) {
    this.view = view;
    this.offer = new P2pWork.Offer(view);
    this.memory = memory;
    this.offset = offset;
    this.user = user;
    this.registered = RegisteredMemory.of(user);
    this.forCollectives = forCollectives;
  }

  /** Returns the window's number in the communicator: 1, 2 and so on in order of registration. */
  public long number() {
    return view.number();
  }

  /**
   * True if collectives use it, whose buffers must then lie at the same offset on all ranks. The
   * same on all ranks.
   */
  @HotPath
  public boolean isForCollectives() {
    return forCollectives;
  }

  /** Returns the window's offer in a send or receive. */
  public P2pWork.Offer offer() {
    return offer;
  }

  /** Returns the window as kernels see it. */
  public WindowView view() {
    return view;
  }

  /** The memory that was registered. */
  public DeviceMemory memory() {
    return user;
  }

  /** Takes the access to all ranks' windows at once that its memory has now. */
  void takeCover() {
    view =
        new WindowView(
            view.number(), view.address(), view.peers(), memory.multicast(offset, view.size()));
  }

  SymmetricMemory mapped() {
    return memory;
  }

  /** The launch of a number is an operation on it; for the launcher. */
  public void use(long launch) {
    used = launch;
  }

  /** The number of the last launch that uses it; 0 if none did. */
  public long lastUse() {
    return used;
  }

  /** True if it has been deregistered. */
  public boolean isDropped() {
    return dropped;
  }

  /**
   * Returns the memory by which kernels find this window: made at the first call, freed when the
   * window is dropped.
   *
   * @param name of it, for messages
   * @param make allocates and fills it
   * @throws InvalidUsageException if it has been deregistered
   */
  public synchronized DeviceMemory handle(Supplier<String> name, Supplier<DeviceMemory> make) {
    if (dropped) {
      throw new InvalidUsageException(
          ErrorId.HANDLE,
          name.get() + " is used after it was deregistered",
          "deregister a window after its last use");
    }
    if (handle == null) {
      handle = make.get();
    }
    return handle;
  }

  synchronized void drop() {
    dropped = true;
    registered.close();
    if (handle != null) {
      handle.close();
      handle = null;
    }
  }
}
