package org.nccl4j.api;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.OptionalLong;
import org.nccl4j.api.group.GroupScope;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.api.window.LsaTeam;
import org.nccl4j.api.window.RegisteredWindow;
import org.nccl4j.api.window.WindowRegistry;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.symmetric.MulticastMemory;
import org.nccl4j.device.symmetric.WindowView;

/**
 * Memory that all ranks of a communicator have registered together ({@link
 * Communicator#registerWindow(DeviceMemory)}). Any thread may call any method. A window registered
 * in a group is usable after the group's end.
 */
public final class Window {
  /** Size of a {@code nccl4jWindow}. */
  static final int HANDLE_BYTES = 48;

  private final String communicator;

  /** Set once, when all ranks have registered it. */
  private volatile RegisteredWindow registered;

  private volatile LsaTeam team;
  private volatile WindowRegistry windows;

  Window(String communicator) {
    this.communicator = communicator;
  }

  /** The operations that use a window. */
  public enum Mode {
    /**
     * All operations. A collective's buffers in it lie at the same offset on all ranks. Corresponds
     * to NCCL_WIN_COLL_SYMMETRIC.
     */
    SYMMETRIC,
    /**
     * All but collectives: puts, sends and receives, and kernels. Collectives' buffers may lie in
     * it at any offset on each rank, and are treated like other memory. Corresponds to
     * NCCL_WIN_DEFAULT.
     */
    ONE_SIDED
  }

  static Window register(CommunicatorState state, DeviceMemory memory, Mode mode) {
    try {
      GroupScope.refuseWhereSimulated("registerWindow");
      boolean forCollectives = Arguments.notNull(mode, "mode of the window") == Mode.SYMMETRIC;
      Window window = new Window(state.name());
      GroupScope.meet(
          state.windows(),
          () -> window.complete(state.registerWindow(memory, forCollectives), state.windows()));
      return window;
    } catch (RuntimeException e) {
      throw GroupScope.failed(e);
    }
  }

  private void complete(RegisteredWindow window, WindowRegistry of) {
    windows = of;
    team = of.team();
    registered = window;
  }

  RegisteredWindow registered() {
    RegisteredWindow window = registered;
    if (window == null) {
      throw new InvalidUsageException(
          ErrorId.HANDLE,
          "a window of communicator %s is used before its group has ended".formatted(communicator),
          "end the group first");
    }
    return window;
  }

  /**
   * Returns what a communicator has registered as this window, to end its use.
   *
   * @throws InvalidUsageException if it is another communicator's, or not registered any more
   */
  RegisteredWindow toDeregister(CommunicatorState state) {
    RegisteredWindow window = registered();
    if (!state.windows().has(window)) {
      throw new InvalidUsageException(
          ErrorId.HANDLE,
          window.isDropped()
              ? "rank %d deregisters %s twice".formatted(state.rank(), this)
              : "rank %d deregisters %s in communicator %s"
                  .formatted(state.rank(), this, state.name()),
          "deregister each window once, with the communicator that registered it");
    }
    return window;
  }

  /** Returns the window's number in the communicator, the same on all ranks. */
  public long number() {
    return registered().number();
  }

  /** This rank's registered memory. */
  public DeviceMemory memory() {
    return registered().memory();
  }

  /** Bytes, the same on all ranks. */
  public long size() {
    return registered().view().size();
  }

  /** True until the window is deregistered. */
  public boolean isRegistered() {
    return !registered().isDropped();
  }

  /**
   * A rank's memory of the window. This rank's device can load from it and store to it until the
   * window is deregistered. The caller synchronizes the accesses.
   *
   * @throws InvalidArgumentException for a rank outside this machine
   */
  public DeviceMemory peer(int rank) {
    RegisteredWindow window = registered();
    if (!team.has(rank)) {
      throw new InvalidArgumentException(
          ErrorId.RANK,
          "rank %d's part of %s is not accessible by loads and stores".formatted(rank, this),
          "pass one of the ranks " + team.ranks());
    }
    if (window.isDropped()) {
      throw new InvalidUsageException(
          ErrorId.HANDLE,
          this + " is used after it was deregistered",
          "deregister a window after its last use");
    }
    return window.view().peers().get(rank - team.first());
  }

  /**
   * The device address of a {@code nccl4jWindow} (header {@code nccl4j_device.cuh}), for the user's
   * own kernels. Allocated at the first call, freed when the window is deregistered or its
   * communicator closed.
   */
  public long deviceHandle() {
    RegisteredWindow window = registered();
    return window.handle(this::toString, () -> makeHandle(window.view())).address();
  }

  private DeviceMemory makeHandle(WindowView view) {
    ByteBuffer layout = ByteBuffer.allocateDirect(HANDLE_BYTES).order(ByteOrder.nativeOrder());
    putHandle(layout, view, windows.stride(), team);
    DeviceMemory handle = windows.device().allocate(HANDLE_BYTES);
    try {
      handle.write(0, layout.flip());
      return handle;
    } catch (RuntimeException e) {
      handle.close();
      throw e;
    }
  }

  /**
   * The device address through which PTX's multimem instructions reach all ranks' windows at once;
   * kernels also find it in {@link #deviceHandle}. Empty without NVLS, with emulated NVLS, and on
   * the host.
   */
  public OptionalLong multimemAddress() {
    long address = multimem(registered().view());
    return address == 0 ? OptionalLong.empty() : OptionalLong.of(address);
  }

  private static long multimem(WindowView view) {
    MulticastMemory all = view.multicast();
    return all == null || all.emulated() ? 0 : all.views().get(0).address();
  }

  /** Fills a {@code nccl4jWindow}. */
  static void putHandle(ByteBuffer layout, WindowView view, long stride, LsaTeam team) {
    layout.putLong(view.peers().get(0).address()).putLong(stride).putLong(view.size());
    layout.putInt(team.place()).putInt(team.size()).putLong(multimem(view));
    layout.putLong(view.number());
  }

  @Override
  public String toString() {
    RegisteredWindow window = registered;
    return window == null
        ? "a window of communicator " + communicator
        : "window %d of communicator %s".formatted(window.number(), communicator);
  }
}
