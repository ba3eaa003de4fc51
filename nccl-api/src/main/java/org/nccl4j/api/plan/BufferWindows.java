package org.nccl4j.api.plan;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.plan.algorithm.BufferReach;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.window.RegisteredWindow;
import org.nccl4j.api.window.Registrations;
import org.nccl4j.api.window.WindowRegistry;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.Leases;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/** Finds the windows that the buffers of operations lie in. Used by one thread at a time. */
public final class BufferWindows {
  /** Bytes of the switch's loads and stores. */
  private static final int PACK = 16;

  private final KernelCommunicator kernels;
  private final WindowRegistry windows;
  private final int nRanks;

  /** True if all ranks reach each other's memory, and there are others at all. */
  private final boolean possible;

  /** True if kernels can store what is sent into windows of others. */
  private final boolean offers;

  private final Found found = new Found();

  /** The windows of a call's buffers, until the next call is looked at. */
  static final class Found {
    private RegisteredWindow from;
    private RegisteredWindow to;
    private boolean overlaps;
    private boolean askew;

    /** The window that the send buffer lies in; null where there is none. */
    @HotPath
    RegisteredWindow from() {
      return from;
    }

    /** Likewise of the receive buffer. */
    @HotPath
    RegisteredWindow to() {
      return to;
    }

    /** True if the buffers overlap in their windows. */
    @HotPath
    boolean overlaps() {
      return overlaps;
    }

    /** True if the buffers lie differently in packs, and the operation has use for others. */
    @HotPath
    boolean askew() {
      return askew;
    }
  }

  /** Finds windows of a registry. */
  BufferWindows(KernelCommunicator kernels, WindowRegistry windows, CommunicatorProfile ranks) {
    this.kernels = kernels;
    this.windows = windows;
    this.nRanks = ranks.nRanks();
    // Processes of a machine can always map each other's memory; GPUs may be unable to.
    boolean maps = ranks.kind() != Device.Kind.CUDA || ranks.reach();
    this.offers = ranks.kind() == Device.Kind.CUDA && windows.team().size() > 1;
    this.possible = maps && nRanks > 1 && windows.team().size() == nRanks;
  }

  /** The windows' registry. */
  public WindowRegistry registry() {
    return windows;
  }

  /** True if operations of a kind can go between windows, once there is space for windows. */
  @HotPath
  boolean arePossible(Operation operation) {
    return possible && operation.isOfAllRanks();
  }

  /** True if operations of a kind can go between windows now. */
  @HotPath
  boolean areUsable(Operation operation) {
    return arePossible(operation) && windows.hasSpace();
  }

  /** True if there are registered buffers of which the ranks have not decided together. */
  @HotPath
  public boolean isUndecided() {
    return windows.registrations().arePending();
  }

  /** True if an operation's buffers may be such; asked where there are some. */
  @HotPath
  public boolean mayBeUndecided(DeviceMemory send, DeviceMemory recv) {
    Registrations registrations = windows.registrations();
    return registrations.mayBePending(send) || registrations.mayBePending(recv);
  }

  /**
   * Has the ranks decide of an operation's buffers, as far as all ranks have them; see {@link
   * Registrations#map}.
   */
  public void decide(long shape, DeviceMemory send, DeviceMemory recv, long count) {
    Operation operation = CallShape.operation(shape);
    long bytes = CallShape.bytes(shape, count);
    List<Registrations.Buffer> buffers = new ArrayList<>();
    if (operation.sendParts(nRanks, /* isRoot= */ false) > 0) {
      buffers.add(new Registrations.Buffer(send, sendBytes(operation, bytes)));
    }
    if (operation.recvParts(nRanks, /* isRoot= */ false) > 0) {
      buffers.add(new Registrations.Buffer(recv, recvBytes(operation, bytes)));
    }
    windows.registrations().map(buffers);
  }

  /** True if the receiver of a message says first where it may go: the same at both ends. */
  @HotPath
  public boolean hasOffer(long bytes) {
    return bytes >= P2pWork.Offer.LEAST_BYTES && hasOffers();
  }

  /** True if so for messages that are long enough. */
  @HotPath
  public boolean hasOffers() {
    return offers && !windows.isEmpty();
  }

  /**
   * Returns the window offer of a send or receive, or null. The buffer's window is in use from now
   * on.
   */
  public P2pWork.Offer offer(DeviceMemory buffer, long bytes) {
    if (!hasOffer(bytes)) {
      return null;
    }
    RegisteredWindow found = usable(windows.find(buffer.address(), bytes));
    if (found == null) {
      return P2pWork.Offer.NONE;
    }
    use(found);
    return found.offer();
  }

  /** Finds the windows of an operation's buffers. */
  @HotPath
  Found find(long shape, DeviceMemory send, DeviceMemory recv, long count) {
    Operation operation = CallShape.operation(shape);
    long bytes = CallShape.bytes(shape, count);
    long sends = sendBytes(operation, bytes);
    long recvs = recvBytes(operation, bytes);
    found.from = find(send, sends);
    found.to = find(recv, recvs);
    found.overlaps =
        found.from != null
            && found.to != null
            && send.address() < recv.address() + recvs
            && recv.address() < send.address() + sends;
    found.askew =
        found.from != null
            && found.to != null
            && Algorithm.DIRECT_NVLS.needsAlike(operation)
            && (send.address() & PACK - 1) != (recv.address() & PACK - 1);
    return found;
  }

  /** The next launch is an operation on a window, unless it is null. */
  @HotPath
  void use(RegisteredWindow window) {
    if (window != null) {
      window.use(kernels.nextLaunch());
    }
  }

  /**
   * The access that ranks have to buffers in windows.
   *
   * @param later counts access to all windows at once that can still be made
   */
  BufferReach reach(Found of, boolean later) {
    boolean covers = later && windows.mayBeCovered();
    return new BufferReach(
        by(of.from, covers), by(of.to, covers), of.overlaps, of.askew, windows.isCovered());
  }

  private static BufferReach.By by(RegisteredWindow window, boolean covers) {
    return covers && window != null ? BufferReach.By.MULTICAST : BufferReach.By.of(window);
  }

  /** The best access that ranks have to any buffers in windows. */
  BufferReach bestReach() {
    BufferReach.By best =
        windows.hasSpace() && !windows.isCovered() && !windows.mayBeCovered()
            ? BufferReach.By.PEERS
            : BufferReach.By.MULTICAST;
    return new BufferReach(
        best, best, /* overlaps= */ false, /* askew= */ false, windows.isCovered());
  }

  @HotPath
  private long sendBytes(Operation operation, long bytes) {
    return operation.sendParts(nRanks, /* isRoot= */ true) * bytes;
  }

  @HotPath
  private long recvBytes(Operation operation, long bytes) {
    return operation.recvParts(nRanks, /* isRoot= */ true) * bytes;
  }

  @HotPath
  private RegisteredWindow find(DeviceMemory memory, long bytes) {
    return memory == null ? null : usable(windows.findForCollectives(memory.address(), bytes));
  }

  /** Returns a window that was found, or null. */
  @HotPath
  private static RegisteredWindow usable(RegisteredWindow found) {
    if (found != null && Leases.of(found.memory()).isOver()) {
      throw gone(found);
    }
    return found;
  }

  /**
   * Returns the error for a window whose addresses now hold other memory than the other ranks have
   * mapped.
   */
  private static InvalidUsageException gone(RegisteredWindow window) {
    return new InvalidUsageException(
        ErrorId.CLOSED,
        "an operation's buffer lies in window %d, whose memory (%s) was closed while it was registered"
            .formatted(window.number(), window.memory()),
        "deregister memory before it is closed");
  }
}
