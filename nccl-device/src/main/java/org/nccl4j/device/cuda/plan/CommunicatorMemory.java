package org.nccl4j.device.cuda.plan;

import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.bind.NativeMemory;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.driver.PinnedWords;
import org.nccl4j.device.kernel.CallMismatch;
import org.nccl4j.device.kernel.CallSignature;
import org.nccl4j.device.kernel.HostGrid;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.SharedConnections;
import org.nccl4j.device.support.CloseAll;
import org.nccl4j.device.support.Patience;

/**
 * Memory of a communicator's kernels: the control words in host memory, and on the device its
 * rings, its peers' addresses and a count, in a cell of the connections' memory.
 */
public final class CommunicatorMemory implements AutoCloseable {
  private static final int OUT_OF_ORDER = 2; // users::kUnlike
  private static final int OTHER_CALL = 3; // kOtherCall
  private static final int NO_SUCH_EXPERT = 4; // experts::kInvalidExpert
  private static final int FEW_OUTPUTS = 5; // experts::kFewOutputs
  private static final int INVALID_COUNT = 6; // ragged::kInvalidCount
  private static final int SENDS_MORE = 7; // ragged::kSendsMore
  private static final int RECEIVES_MORE = 8; // ragged::kReceivesMore
  private static final int FEW_RESULTS = 9; // experts::kFewResults
  private static final int COUNTS_DIFFER = 10; // ragged::kCountsDiffer

  private final KernelCommunicatorSpec spec;
  private final ConnectionMemory connections;
  private final Place place;
  private final PinnedWords controlWords;
  private final ByteBuffer control;
  private final DeviceMemory cell; // null for a single rank, which only copies

  /**
   * One of the communicators that share connections.
   *
   * @param firstRanks its ranks, as ranks of the first
   * @param path where it comes from: the same on all its ranks, another for each that shares
   */
  public record Place(int[] firstRanks, String path) {
    /** Path of the communicator that created the connections. */
    public static final String FIRST = "";

    /** Returns the number by which kernels identify the communicator. */
    int user() {
      return path.equals(FIRST) ? SharedConnections.FIRST : SharedConnections.user(path);
    }
  }

  /**
   * Creates the memory of one communicator.
   *
   * @param spec with the connections
   * @param place among those that share the connections
   */
  public CommunicatorMemory(
      Gpu gpu, KernelCommunicatorSpec spec, ConnectionMemory connections, Place place) {
    this.spec = spec;
    this.connections = connections;
    this.place = place;
    int n = spec.nRanks();
    cell = n == 1 ? null : connections.takeCell();
    try {
      if (cell != null) {
        cell.write(0, tables());
      }
      controlWords = PinnedWords.allocate(gpu, KernelLayout.CONTROL_BYTES);
    } catch (RuntimeException e) {
      giveCell();
      throw e;
    }
    control =
        NativeMemory.buffer(controlWords.host(), KernelLayout.CONTROL_BYTES)
            .order(ByteOrder.nativeOrder());
  }

  private ByteBuffer tables() {
    int n = spec.nRanks();
    int ringBytes = ConnectionMemory.ringBytes(n);
    ByteBuffer tables =
        ByteBuffer.allocateDirect(ConnectionMemory.cellBytes(n)).order(ByteOrder.nativeOrder());
    for (int channel = 0; channel < ConnectionLayout.CHANNELS; channel++) {
      putRanks(tables, channel, ring(channel));
    }
    putRanks(tables, ConnectionLayout.CHANNELS, HostGrid.ranks(spec.hosts()));
    for (int peer = 0; peer < n; peer++) {
      putPeer(tables, ringBytes + peer * KernelLayout.PEER_BYTES, peer);
    }
    return tables;
  }

  private static void putRanks(ByteBuffer tables, int row, int[] ranks) {
    for (int i = 0; i < ranks.length; i++) {
      int at = KernelLayout.RANK_BYTES * (row * ranks.length + i);
      tables.putShort(at, (short) ranks[i]);
    }
  }

  private void giveCell() {
    if (cell != null) {
      connections.giveCell(cell);
    }
  }

  /** A channel's ring, by position. */
  int[] ring(int channel) {
    return spec.ring().get(channel % spec.ring().size());
  }

  /** True if all channels have the same one. */
  boolean hasOneRing() {
    return spec.ring().stream().allMatch(ring -> Arrays.equals(ring, ring(0)));
  }

  /** Returns the address of the ranks of the rings of channels, from a first on. */
  long ringRanks(int first) {
    return cell == null
        ? 0
        : cell.address() + (long) KernelLayout.RANK_BYTES * first * spec.nRanks();
  }

  /** Returns the address of the ranks host after host. */
  long hostAfterHostRanks() {
    return ringRanks(ConnectionLayout.CHANNELS);
  }

  long peerTable() {
    return cell == null ? 0 : cell.address() + ConnectionMemory.ringBytes(spec.nRanks());
  }

  /**
   * Returns the address of the count of rounds that channels claim. It is zero while no kernel
   * runs.
   */
  long claims() {
    return cell.address() + ConnectionMemory.tableBytes(spec.nRanks());
  }

  /** Returns the address of the steps of the connections with a peer. */
  public long steps(int peer) {
    return connections.steps(place.firstRanks[peer]);
  }

  /** Fills the part that all kernels' arguments begin with. */
  public void putCommunicator(Offheap arguments) {
    arguments
        .putLong(KernelLayout.CONTROL, controlWords.address())
        .putLong(KernelLayout.BUDGET, Patience.nanos(spec.deadline()))
        .putInt(KernelLayout.RANK, spec.rank())
        .putInt(KernelLayout.N_RANKS, spec.nRanks())
        .putInt(KernelLayout.LL_SLOT, spec.layout().llSlotBytes())
        .putInt(KernelLayout.LL128_SLOT, spec.layout().ll128SlotBytes())
        .putInt(KernelLayout.SIMPLE_SLOT, spec.layout().simpleSlotBytes())
        .putInt(KernelLayout.USER, place.user());
  }

  /** Fills a peer's entry; zeros where there is no connection. */
  void putPeer(ByteBuffer target, int offset, int peer) {
    Connection send = spec.sends().get(peer);
    Connection recv = spec.recvs().get(peer);
    target.putLong(offset, send == null ? 0 : send.data().address());
    target.putLong(offset + 8, send == null ? 0 : send.credit().address());
    target.putLong(offset + 16, recv == null ? 0 : recv.data().address());
    target.putLong(offset + 24, recv == null ? 0 : recv.credit().address());
    target.putLong(offset + KernelLayout.PEER_STEPS, steps(peer));
  }

  /**
   * Writes a peer's entry on the device anew, once there are connections that no kernel uses yet.
   */
  public void writePeer(int peer) {
    ByteBuffer entry =
        ByteBuffer.allocateDirect(KernelLayout.PEER_BYTES).order(ByteOrder.nativeOrder());
    putPeer(entry, 0, peer);
    int at = ConnectionMemory.ringBytes(spec.nRanks()) + peer * KernelLayout.PEER_BYTES;
    cell.write(at, entry);
  }

  /** Ends all waits of the communicator's kernels; published by being seen over the bus. */
  public void abort() {
    control.putInt(KernelLayout.CONTROL_ABORT, 1);
    VarHandle.fullFence();
  }

  /** True if a kernel gave up waiting. */
  @HotPath
  public boolean hasFailed() {
    return control.getInt(KernelLayout.CONTROL_FAILED) != 0;
  }

  /** Returns the report of a kernel that gave up waiting, or null. */
  public String kernelFailure() {
    if (!hasFailed()) {
      return null;
    }
    VarHandle.acquireFence(); // the fields below were written before the word above
    if (isOutOfOrder()) {
      int peer = control.getInt(KernelLayout.CONTROL_FAILED_PEER);
      return SharedConnections.complaint(spec.name(), spec.rank(), peer)
          + " (channel %d, step %d)"
              .formatted(
                  control.getInt(KernelLayout.CONTROL_FAILED_CHANNEL),
                  control.getLong(KernelLayout.CONTROL_FAILED_STEP));
    }
    if (isOfAnotherCall()) {
      return otherCall(
          control.getInt(KernelLayout.CONTROL_FAILED_PEER),
          control.getLong(KernelLayout.CONTROL_FAILED_STEP));
    }
    if (isOfArguments()) {
      return wrongArgument(control.getLong(KernelLayout.CONTROL_FAILED_STEP));
    }
    if (isOfCounts()) {
      return wrongCount(
          control.getInt(KernelLayout.CONTROL_FAILED_PEER),
          control.getInt(KernelLayout.CONTROL_FAILED_CHANNEL),
          control.getLong(KernelLayout.CONTROL_FAILED_STEP));
    }
    return "rank %d of %s waited longer than %s for %s of rank %d (channel %d, step %d)"
        .formatted(
            spec.rank(),
            spec.name(),
            Patience.text(spec.deadline()),
            control.getInt(KernelLayout.CONTROL_FAILED_KIND) == 0 ? "data" : "credit",
            control.getInt(KernelLayout.CONTROL_FAILED_PEER),
            control.getInt(KernelLayout.CONTROL_FAILED_CHANNEL),
            control.getLong(KernelLayout.CONTROL_FAILED_STEP));
  }

  /**
   * Describes a peer's data that belong to another call.
   *
   * @param calls this rank's in the upper half, the peer's in the lower, each the signature above
   *     what stands for where its buffers lie; 0 where that is not known
   */
  private String otherCall(int peer, long calls) {
    int own = (int) (calls >>> Integer.SIZE);
    int other = (int) calls;
    return own >>> CallSignature.BITS == other >>> CallSignature.BITS && own != other
        ? "rank %d of %s has its buffers at different offsets in their windows than rank %d"
            .formatted(spec.rank(), spec.name(), peer)
        : CallMismatch.problem(spec.name(), spec.rank(), peer);
  }

  private String wrongArgument(long found) {
    int above = (int) (found >>> Integer.SIZE);
    int below = (int) found;
    return hasFailedBy(NO_SUCH_EXPERT)
        ? "dispatch of tokens on rank %d of %s: entry %d of the experts is %d, which does not exist"
            .formatted(spec.rank(), spec.name(), above, below)
        : "combine of outputs on rank %d of %s: %s"
            .formatted(
                spec.rank(),
                spec.name(),
                hasFailedBy(FEW_OUTPUTS)
                    ? "the outputs have room for %d rows, and row %d was received"
                        .formatted(above, below)
                    : "the result has room for %d rows, and the last dispatch had %d tokens"
                        .formatted(above, below));
  }

  private String wrongCount(int rank, int target, long elements) {
    String of =
        "ragged exchange of %s on rank %d: rank %d ".formatted(spec.name(), spec.rank(), rank);
    return of
        + (hasFailedBy(INVALID_COUNT)
            ? "has the count %d for rank %d".formatted(elements, target)
            : hasFailedBy(COUNTS_DIFFER)
                ? "has the count %d for rank %d, and rank 0 another".formatted(elements, target)
                : hasFailedBy(SENDS_MORE)
                    ? "sends %d elements, more than its send buffer has".formatted(elements)
                    : "would receive %d elements, more than the exchange allows"
                        .formatted(elements));
  }

  /** True if a kernel has refused what it was given. */
  public boolean isOfArguments() {
    return hasFailedBy(NO_SUCH_EXPERT) || hasFailedBy(FEW_OUTPUTS) || hasFailedBy(FEW_RESULTS);
  }

  /** True if a kernel has refused the counts of a ragged exchange. */
  public boolean isOfCounts() {
    return hasFailedBy(INVALID_COUNT)
        || hasFailedBy(SENDS_MORE)
        || hasFailedBy(RECEIVES_MORE)
        || hasFailedBy(COUNTS_DIFFER);
  }

  /** True if a kernel has found data that were not for this communicator, or for the one before. */
  public boolean isOutOfOrder() {
    return hasFailedBy(OUT_OF_ORDER);
  }

  /** True if a kernel has found data of another call than its own. */
  public boolean isOfAnotherCall() {
    return hasFailedBy(OTHER_CALL);
  }

  private boolean hasFailedBy(int kind) {
    if (!hasFailed()) {
      return false;
    }
    VarHandle.acquireFence(); // as above
    return control.getInt(KernelLayout.CONTROL_FAILED_KIND) == kind;
  }

  /** The rank that a kernel waited for when it gave up; -1 while none has. */
  public int failedPeer() {
    if (!hasFailed()) {
      return -1;
    }
    VarHandle.acquireFence(); // as above
    return control.getInt(KernelLayout.CONTROL_FAILED_PEER);
  }

  /** Returns the last report of a kernel thread that waits for long; 0 if there is none. */
  public long waiting() {
    return control.getLong(KernelLayout.CONTROL_WAITING);
  }

  /** Returns the host's view of the control words, for tests that act as the kernels. */
  public ByteBuffer control() {
    return control;
  }

  @Override
  public void close() {
    CloseAll all = new CloseAll();
    all.take(this::giveCell);
    all.take(controlWords::close);
    all.end();
  }
}
