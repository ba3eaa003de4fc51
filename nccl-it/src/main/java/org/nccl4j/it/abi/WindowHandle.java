package org.nccl4j.it.abi;

import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Registration;
import org.nccl4j.api.Window;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InvalidArgumentException;

/** An ncclWindow_t, or the handle of ncclCommRegister. Any thread. */
final class WindowHandle {
  private static final Handles<WindowHandle> WINDOWS = new Handles<>(2);
  private static final Handles<WindowHandle> REGISTRATIONS = new Handles<>(3);
  private static final Set<WindowHandle> LIVE = ConcurrentHashMap.newKeySet();

  private final long handle;
  private final RankHandle owner;
  private final DeviceMemory memory;

  /** Null for a window. */
  private final Registration registration;

  /** Null where it is not registered, or not yet. */
  private volatile Window window;

  private WindowHandle(
      long handle, RankHandle owner, DeviceMemory memory, Registration registration) {
    this.handle = handle;
    this.owner = owner;
    this.memory = memory;
    this.registration = registration;
  }

  /**
   * Registers a window; in a group it is usable after the end. The handle of a communicator that
   * does not block is there at once, and is a window's when the communicator is no longer in
   * progress.
   */
  static long register(RankHandle owner, long address, long bytes, boolean symmetric) {
    DeviceMemory memory = memory(owner, address, bytes);
    Communicator communicator = owner.communicator();
    Window.Mode mode = symmetric ? Window.Mode.SYMMETRIC : Window.Mode.ONE_SIDED;
    if (owner.config().blocking()) {
      Window registered = communicator.registerWindow(memory, mode);
      WindowHandle made =
          keep(WINDOWS.add(handle -> new WindowHandle(handle, owner, memory, null)));
      made.window = registered;
      return made.handle;
    }
    WindowHandle made = keep(WINDOWS.add(handle -> new WindowHandle(handle, owner, memory, null)));
    owner.registerLater(() -> made.window = communicator.registerWindow(memory, mode));
    return made.handle;
  }

  /** Registers one rank's memory. */
  static long registerLocal(RankHandle owner, long address, long bytes) {
    DeviceMemory memory = memory(owner, address, bytes);
    Registration made = owner.communicator().register(memory);
    owner.place().memory().register(memory);
    return keep(REGISTRATIONS.add(handle -> new WindowHandle(handle, owner, memory, made))).handle;
  }

  /** Memory of ncclMemAlloc is known to be freed when it is, even if other memory has its place. */
  private static DeviceMemory memory(RankHandle owner, long address, long bytes) {
    owner.communicator();
    return owner.place().memory().find(address, bytes);
  }

  private static WindowHandle keep(WindowHandle made) {
    LIVE.add(made);
    return made;
  }

  /**
   * Ends this rank's use of a window: one thread may do so for one rank after the other. Of one
   * whose registration has failed nothing is left to be ended.
   */
  static void deregister(RankHandle owner, long handle) {
    WindowHandle found = find(WINDOWS, handle, "window");
    Communicator communicator = owner.communicator();
    if (found.window != null) {
      communicator.deregisterWindow(found.window);
    }
    WINDOWS.remove(handle);
    LIVE.remove(found);
  }

  static void deregisterLocal(RankHandle owner, long handle) {
    WindowHandle found = find(REGISTRATIONS, handle, "registration");
    owner.communicator().deregister(found.registration);
    owner.place().memory().deregister(found.memory);
    REGISTRATIONS.remove(handle);
    LIVE.remove(found);
  }

  /** The address that was registered. */
  static long address(long handle) {
    return find(WINDOWS, handle, "window").memory.address();
  }

  static Window window(long handle) {
    return find(WINDOWS, handle, "window").registered();
  }

  private Window registered() {
    Window found = window;
    if (found == null) {
      throw Wrong.argument(
          "0x%x is a window whose registration goes on or has failed".formatted(handle),
          "call ncclCommGetAsyncError until it gives ncclSuccess");
    }
    return found;
  }

  /**
   * The address of a byte in a rank's part of the window; 0 if the rank is on another machine.
   *
   * @param peer the rank in the communicator
   */
  static long peerAddress(long handle, int peer, long offset) {
    WindowHandle found = find(WINDOWS, handle, "window");
    int nRanks = found.owner.communicator().nRanks();
    if (peer < 0 || peer >= nRanks) {
      throw Wrong.argument(
          "rank %d of %d ranks has no part of a window".formatted(peer, nRanks),
          "pass a rank of the window's communicator");
    }
    DeviceMemory part = found.part(peer);
    return part == null ? 0 : part.address() + found.checked(offset);
  }

  /**
   * The address of a byte in the part of one of this machine's ranks.
   *
   * @param place the number of the rank among those whose parts can be addressed
   */
  static long localAddress(long handle, int place, long offset) {
    WindowHandle found = find(WINDOWS, handle, "window");
    int nRanks = found.owner.communicator().nRanks();
    int left = place;
    for (int rank = 0; rank < nRanks && left >= 0; rank++) {
      DeviceMemory part = found.part(rank);
      if (part != null && left-- == 0) {
        return part.address() + found.checked(offset);
      }
    }
    throw Wrong.argument(
        "%d is not a place among the ranks of this machine".formatted(place),
        "pass 0 to the number of the machine's ranks - 1");
  }

  /** The address of a byte in all ranks' parts at once; 0 if there is none. */
  static long multicastAddress(long handle, long offset) {
    WindowHandle found = find(WINDOWS, handle, "window");
    OptionalLong all = found.registered().multimemAddress();
    return all.isEmpty() ? 0 : all.getAsLong() + found.checked(offset);
  }

  /** A rank's part of the window; null if the rank is on another machine. */
  private DeviceMemory part(int rank) {
    Window of = registered();
    try {
      return of.peer(rank);
    } catch (InvalidArgumentException e) {
      return null;
    }
  }

  private long checked(long offset) {
    long bytes = registered().size();
    if (offset < 0 || offset >= bytes) {
      throw Wrong.argument(
          "offset %s is outside a window of %d bytes"
              .formatted(Long.toUnsignedString(offset), bytes),
          "pass the offset of a byte in the window");
    }
    return offset;
  }

  private static WindowHandle find(Handles<WindowHandle> all, long handle, String what) {
    WindowHandle found = all.find(handle);
    if (found == null) {
      throw Wrong.argument(
          "0x%x is not a %s, or was deregistered".formatted(handle, what),
          "pass the handle of a registration that has not ended");
    }
    return found;
  }

  /** Forgets what a communicator has registered; its close deregisters it. */
  static void forget(RankHandle owner) {
    for (WindowHandle each : LIVE) {
      if (each.owner == owner) {
        WINDOWS.remove(each.handle);
        if (REGISTRATIONS.remove(each.handle) != null) {
          owner.place().memory().deregister(each.memory);
        }
        LIVE.remove(each);
      }
    }
  }
}
