package org.nccl4j.api;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.BooleanSupplier;
import java.util.stream.IntStream;
import org.nccl4j.api.bootstrap.CallOrder;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.api.window.DeviceCommLayout;
import org.nccl4j.api.window.DeviceCommRequirements;
import org.nccl4j.api.window.KernelMemory;
import org.nccl4j.api.window.LsaTeam;
import org.nccl4j.api.window.WindowRegistry;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.bind.NativeMemory;
import org.nccl4j.device.host.HostBarrier;
import org.nccl4j.device.host.HostSignals;
import org.nccl4j.device.kernel.RmaSpace;
import org.nccl4j.device.support.Patience;

/**
 * Barriers, slots for small values and the team, for the user's own kernels on windows. A CUDA
 * kernel gets {@link #address()} as a pointer to a {@code nccl4jDeviceCommunicator} (header {@code
 * nccl4j_device.cuh}, unpacked by {@code ./nccl device-headers}). Java kernels on the host use
 * {@link Window#peer} and {@link #barrier}.
 *
 * <p>With signals, kernels put data into windows of any rank and signal it, and get data from them,
 * also on other machines ({@code Gin} of the header; {@link #put} and the methods below it for Java
 * kernels).
 *
 * <p>All ranks create it together ({@link Communicator#createDeviceCommunicator}). Each rank closes
 * it alone, before its communicator and after the last kernel on any rank that uses it. Puts and
 * gets that no kernel has waited for with {@code quiet} may be lost then.
 */
public final class DeviceCommunicator implements AutoCloseable {
  private static final int BYTES = 136;

  /** The header's NCCL4J_DEVICE_VERSION. */
  private static final int VERSION = 4;

  private static final int MOST = 4096;

  private final CommunicatorState state;
  private final WindowRegistry windows;
  private final LsaTeam team;

  /** The window of barriers and slots, and the nccl4jDeviceCommunicator. */
  private final KernelMemory memory;

  /**
   * Puts and gets with ranks outside the team; without slots, or null on the host, where all ranks
   * are in the team. Null without signals.
   */
  private final RmaSpace.KernelRing ring;

  private final int rank;
  private final int signals;
  private final List<HostBarrier> barriers = new ArrayList<>();

  /** Raised by ranks of the team, on the host; else null. */
  private final HostSignals near;

  private volatile boolean closed;

  /**
   * The parts of a device communicator: 0 to 4096 of each, none by default. Corresponds to
   * ncclDevCommRequirements.
   *
   * @param barriers barriers of the team, often one for each block
   * @param slots values of 8 bytes that a rank can send to each other rank in an LL all-to-all
   * @param signals words of each rank that puts of kernels raise (NCCL's GIN); 0 for no puts and
   *     gets. GPUs of a team need atomic operations on each other's memory for them, which NVLink
   *     has
   */
  public record Requirements(int barriers, int slots, int signals) {
    private static final Requirements NONE = new Requirements(0, 0, 0);

    /** Nothing but the team. */
    public static Requirements defaults() {
      return NONE;
    }

    /** The same with a number of barriers. */
    public Requirements withBarriers(int number) {
      return new Requirements(number, slots, signals);
    }

    /** The same with a number of slots. */
    public Requirements withSlots(int number) {
      return new Requirements(barriers, number, signals);
    }

    /** The same with a number of signals. */
    public Requirements withSignals(int number) {
      return new Requirements(barriers, slots, number);
    }
  }

  private DeviceCommunicator(
      CommunicatorState state,
      DeviceCommRequirements asked,
      KernelMemory memory,
      RmaSpace.KernelRing ring) {
    this.state = state;
    this.windows = state.windows();
    this.team = windows.team();
    this.memory = memory;
    this.ring = ring;
    this.rank = state.rank();
    this.signals = asked.signals();
    int barrierCount = asked.barriers();
    DeviceCommLayout layout = new DeviceCommLayout(asked, team.size());
    Device device = windows.device();
    List<DeviceMemory> peers = memory.window().view().peers();
    ByteBuffer handle = ByteBuffer.allocateDirect(BYTES).order(ByteOrder.nativeOrder());
    Window.putHandle(handle, memory.window().view(), windows.stride(), team);
    handle.putInt(rank).putInt(windows.nRanks()).putInt(team.first()).putInt(barrierCount);
    handle.putLong(layout.epochs()).putLong(layout.lines()).putLong(layout.counters());
    handle.putInt(asked.slots()).putInt(VERSION);
    handle.putLong(ring == null ? 0 : ring.address());
    handle.putLong(ring == null ? 0 : ring.descriptors());
    handle.putLong(layout.claimed()).putLong(layout.signals());
    handle.putInt(ring == null ? 0 : ring.slots()).putInt(signals);
    memory.own().write(0, handle.flip());
    near =
        device.kind() == Device.Kind.HOST
            ? new HostSignals(peers, team.place(), layout.signals())
            : null;
    for (int b = 0; device.kind() == Device.Kind.HOST && b < barrierCount; b++) {
      barriers.add(new HostBarrier(peers, team.place(), layout.flags(b)));
    }
  }

  /** Creates this rank's device communicator; an error is reported to all ranks. */
  static DeviceCommunicator create(CommunicatorState state, Requirements requirements) {
    Arguments.notNull(requirements, "requirements of the device communicator");
    CallOrder.Turn turn = state.calls().enter();
    try (turn) {
      return createNow(state, requirements);
    }
  }

  private static DeviceCommunicator createNow(CommunicatorState state, Requirements requirements) {
    WindowRegistry windows = state.windows();
    String name = state.name();
    int rank = state.rank();
    DeviceCommRequirements asked =
        new DeviceCommRequirements(requirements.barriers, requirements.slots, requirements.signals);
    KernelMemory memory =
        KernelMemory.make(
            windows,
            asked,
            () -> {
              check(asked, name, rank);
              if (asked.signals() > 0) {
                windows.withoutAtomics().ifPresent(peer -> refuseSignals(name, rank, peer));
              }
              int team = windows.team().size();
              return new KernelMemory.Bytes(new DeviceCommLayout(asked, team).bytes(), BYTES);
            });
    RmaSpace.KernelRing ring = null;
    try {
      ring = ring(state, asked.signals());
      return new DeviceCommunicator(state, asked, memory, ring);
    } catch (RuntimeException e) {
      if (ring != null) {
        ring.close();
      }
      memory.close();
      throw e;
    }
  }

  private static void refuseSignals(String name, int rank, int peer) {
    throw new InvalidUsageException(
        ErrorId.UNSUPPORTED,
        ("createDeviceCommunicator on communicator %s asks for signals, which kernels raise by atomic"
                + " operations on each other's memory: the GPUs of ranks %d and %d have none (no NVLink"
                + " between them)")
            .formatted(name, rank, peer),
        "ask for none, and use barriers of the team, or Communicator.putSignal of the host");
  }

  private static RmaSpace.KernelRing ring(CommunicatorState state, int signals) {
    WindowRegistry windows = state.windows();
    if (signals == 0) {
      return null;
    }
    if (windows.nRanks() > windows.team().size()) {
      return windows.kernelRing(signals);
    }
    return state.controlRing(signals).orElse(null);
  }

  private static void check(DeviceCommRequirements asked, String name, int rank) {
    if (IntStream.of(asked.barriers(), asked.slots(), asked.signals())
        .anyMatch(each -> each < 0 || each > MOST)) {
      throw new InvalidArgumentException(
          ErrorId.COUNT,
          "createDeviceCommunicator on rank %d of communicator %s asks for %s"
              .formatted(rank, name, asked),
          "ask for 0 to " + MOST + " of each");
    }
  }

  /** The device address of the {@code nccl4jDeviceCommunicator}. */
  public long address() {
    return memory.own().address();
  }

  /** The ranks that can access each other's windows, ascending. */
  public List<Integer> team() {
    return team.ranks();
  }

  /** Bytes of this rank's device memory in use. */
  public long memoryBytes() {
    return memory.shared().size() + memory.own().size();
  }

  /**
   * Waits, on the host, until every rank of the team has called the same barrier. Earlier writes of
   * all ranks are then visible. One thread of each rank may use a barrier.
   *
   * @throws TimeoutException if a rank does not call it in time; the barrier is then unusable
   * @throws InvalidUsageException on CUDA, where kernels have their own barriers, after close, and
   *     if the communicator has failed, also while it waits
   */
  public void barrier(int index, Duration timeout) {
    Arguments.notNull(timeout, "timeout");
    checkHost("a barrier", "LsaBarrier");
    if (index < 0 || index >= barriers.size()) {
      throw new InvalidArgumentException(
          ErrorId.COUNT,
          "barrier %d of %d".formatted(index, barriers.size()),
          "ask for more when the device communicator is created");
    }
    if (!barriers.get(index).await(timeout, this::isOver)) {
      if (isOver()) {
        throw over();
      }
      throw new TimeoutException(
          ErrorId.OPERATION,
          "a rank did not reach barrier %d within %s".formatted(index, Patience.text(timeout)),
          "check that all ranks call the barrier, or pass a longer timeout");
    }
  }

  private void checkHost(String what, String inKernels) {
    if (closed) {
      throw new InvalidUsageException(
          ErrorId.CLOSED,
          what + " of a closed device communicator is used",
          "close it after its last use");
    }
    if (isOver()) { // its window may be unmapped
      throw over();
    }
    if (windows.device().kind() != Device.Kind.HOST) {
      throw new InvalidUsageException(
          ErrorId.UNSUPPORTED,
          what + " of a GPU's communicator is used from Java",
          "use %s of nccl4j_device.cuh in kernels".formatted(inKernels));
    }
  }

  /**
   * A put of a Java kernel.
   *
   * @param rank any rank of the communicator, this one too
   * @param to window whose part of that rank gets the data
   * @param offset where they begin in it, in bytes
   * @param from window whose part of this rank has the data
   * @param fromOffset where they begin in it, in bytes
   * @param bytes how many; at least 0
   */
  public record Put(int rank, Window to, long offset, Window from, long fromOffset, long bytes) {}

  /**
   * Begins a put from a Java kernel on the host, and raises a signal of the rank after the data.
   * Puts and signals to one rank arrive in the order of the calls of one thread. The source must
   * stay as it is until {@link #flush}. Any thread.
   *
   * @param signal from 0; -1 for none
   * @param timeout how long to wait while the ring of puts is full
   * @throws InvalidArgumentException if the data do not lie in the windows, or for a rank or signal
   *     out of range
   * @throws TimeoutException if the ring stays full
   * @throws InvalidUsageException on CUDA, where kernels call {@code Gin::put}; after close; and if
   *     the communicator has failed
   */
  public void put(Put put, int signal, Duration timeout) {
    Arguments.notNull(put, "put");
    Arguments.notNull(timeout, "timeout");
    checkHost("a put", "Gin::put");
    checkPut(put, signal);
    if (team.has(put.rank)) {
      if (put.bytes > 0) {
        NativeMemory.copy(
            put.from.peer(rank).address() + put.fromOffset,
            put.to.peer(put.rank).address() + put.offset,
            put.bytes);
      }
      if (signal >= 0) {
        near.raise(put.rank - team.first(), signal);
      }
      return;
    }
    boolean hasData = put.bytes > 0;
    RmaSpace.KernelPut far =
        new RmaSpace.KernelPut(
            put.rank,
            hasData ? put.to.number() : 0,
            put.offset,
            hasData ? put.from.number() : 0,
            put.fromOffset,
            put.bytes,
            signal,
            /* get= */ false);
    if ((hasData || signal >= 0) && !ring.post(far, timeout)) {
      throw ringFull(timeout);
    }
  }

  private void checkPut(Put put, int signal) {
    checkPeer("put", put.rank);
    if (signal != -1) {
      checkSignal(signal);
    }
    if (put.bytes < 0
        || put.bytes > 0
            && !(fits(put.to, put.offset, put.bytes)
                && fits(put.from, put.fromOffset, put.bytes))) {
      throw outside(
          "a put of rank %d of %d bytes from byte %d of %s to byte %d of %s"
              .formatted(rank, put.bytes, put.fromOffset, put.from, put.offset, put.to));
    }
  }

  private static InvalidArgumentException outside(String what) {
    return new InvalidArgumentException(
        ErrorId.COUNT,
        what,
        "keep puts and gets inside windows that this communicator has registered");
  }

  /**
   * A get of a Java kernel.
   *
   * @param rank any rank of the communicator, this one too
   * @param from window whose part of that rank has the data
   * @param offset where they begin in it, in bytes
   * @param to window whose part of this rank gets the data
   * @param toOffset where they begin in it, in bytes
   * @param bytes how many; at least 0
   */
  public record Get(int rank, Window from, long offset, Window to, long toOffset, long bytes) {}

  /**
   * Begins a get from a Java kernel on the host: the rank takes no part. The data are there after
   * {@link #flush}, and nobody may write the source until then. They have those of earlier puts to
   * that rank of the same thread. The rank may deregister the window only after this rank's flush,
   * of which a signal or a barrier tells it. Any thread.
   *
   * @param timeout how long to wait while the ring of puts and gets is full
   * @throws InvalidArgumentException if the data do not lie in the windows, or for a rank out of
   *     range
   * @throws TimeoutException if the ring stays full
   * @throws InvalidUsageException on CUDA, where kernels call {@code Gin::get}; after close; and if
   *     the communicator has failed
   */
  public void get(Get get, Duration timeout) {
    Arguments.notNull(get, "get");
    Arguments.notNull(timeout, "timeout");
    checkHost("a get", "Gin::get");
    checkPeer("get", get.rank);
    if (get.bytes < 0
        || get.bytes > 0
            && !(fits(get.from, get.offset, get.bytes) && fits(get.to, get.toOffset, get.bytes))) {
      throw outside(
          "a get of rank %d of %d bytes from byte %d of %s to byte %d of %s"
              .formatted(rank, get.bytes, get.offset, get.from, get.toOffset, get.to));
    }
    if (get.bytes == 0) {
      return;
    }
    if (team.has(get.rank)) {
      NativeMemory.copy(
          get.from.peer(get.rank).address() + get.offset,
          get.to.peer(rank).address() + get.toOffset,
          get.bytes);
      return;
    }
    RmaSpace.KernelPut far =
        new RmaSpace.KernelPut(
            get.rank,
            get.from.number(),
            get.offset,
            get.to.number(),
            get.toOffset,
            get.bytes,
            /* signal= */ -1,
            /* get= */ true);
    if (!ring.post(far, timeout)) {
      throw ringFull(timeout);
    }
  }

  private NcclException ringFull(Duration timeout) {
    return inVain("the ring of " + ring.slots() + " puts and gets stayed full for", timeout);
  }

  private void checkPeer(String what, int peer) {
    if (peer < 0 || peer >= windows.nRanks()) {
      throw new InvalidArgumentException(
          ErrorId.RANK,
          "a %s of rank %d names rank %d of %d".formatted(what, rank, peer, windows.nRanks()),
          "name a rank in the range");
    }
    if (signals == 0) {
      throw new InvalidArgumentException(
          ErrorId.COUNT,
          "a %s of rank %d of a device communicator without signals".formatted(what, rank),
          "ask for a signal when the device communicator is created");
    }
  }

  private boolean fits(Window window, long offset, long bytes) {
    return window != null
        && window.isRegistered()
        && windows.has(window.registered())
        && offset >= 0
        && offset <= window.size() - bytes;
  }

  private void checkSignal(int signal) {
    if (signal < 0 || signal >= signals) {
      throw new InvalidArgumentException(
          ErrorId.COUNT,
          "signal %d of %d".formatted(signal, signals),
          "ask for more when the device communicator is created");
    }
  }

  /**
   * Raises a rank's signal by one, from a Java kernel on the host, after the data of earlier puts
   * of the same thread to that rank.
   *
   * @throws NcclException as {@link #put}
   */
  public void signal(int of, int signal, Duration timeout) {
    Arguments.notNull(timeout, "timeout");
    checkSignal(signal);
    put(new Put(of, null, 0, null, 0, 0), signal, timeout);
  }

  /**
   * Returns how often all ranks have raised this rank's signal, on the host. What a rank put before
   * is visible. Any thread.
   */
  public long signalCount(int signal) {
    checkHost("a signal", "Gin::signals");
    checkSignal(signal);
    return near.value(signal) + (ring == null ? 0 : ring.signal(signal));
  }

  /**
   * Waits, in a Java kernel on the host, until a signal has been raised so often since the creation
   * of this device communicator. Any thread.
   *
   * @throws TimeoutException if it is not in time
   * @throws InvalidUsageException on CUDA, after close, and if the communicator has failed
   */
  public void waitSignal(int signal, long least, Duration timeout) {
    Arguments.notNull(timeout, "timeout");
    if (!await(() -> signalCount(signal) >= least, timeout)) {
      throw inVain(
          "signal %d was raised %d times, not %d, within"
              .formatted(signal, signalCount(signal), least),
          timeout);
    }
  }

  private boolean await(BooleanSupplier condition, Duration timeout) {
    return Patience.until(() -> isOver() || condition.getAsBoolean(), timeout)
        && condition.getAsBoolean();
  }

  /** True if waits are in vain. */
  private boolean isOver() {
    return closed || state.isClosed() || state.failure() != null || ring != null && ring.isOver();
  }

  /**
   * Waits, in a Java kernel on the host, until the sources of all earlier puts of this rank can be
   * written again, and the data of all earlier gets are in this rank's windows. Any thread.
   *
   * @throws TimeoutException if they cannot in time
   * @throws InvalidUsageException as {@link #waitSignal}
   */
  public void flush(Duration timeout) {
    Arguments.notNull(timeout, "timeout");
    checkHost("a flush", "Gin::flush");
    if (ring != null && !ring.awaitFlushed(timeout)) {
      throw inVain("puts were not sent, or gets not answered, within", timeout);
    }
  }

  /**
   * Waits, in a Java kernel on the host, until the data of all earlier puts and gets of this rank
   * are in the windows, and their signals are raised. Any thread.
   *
   * @throws TimeoutException if they are not in time
   * @throws InvalidUsageException as {@link #waitSignal}
   */
  public void quiet(Duration timeout) {
    Arguments.notNull(timeout, "timeout");
    checkHost("a quiet", "Gin::quiet");
    if (ring != null && !ring.awaitArrived(timeout)) {
      throw inVain("puts or gets did not arrive within", timeout);
    }
  }

  private NcclException inVain(String what, Duration timeout) {
    if (isOver()) {
      return over();
    }
    return new TimeoutException(
        ErrorId.OPERATION,
        "rank %d: %s %s".formatted(rank, what, Patience.text(timeout)),
        "look for the rank that did not take part and at the network, or pass a longer timeout");
  }

  private InvalidUsageException over() {
    return new InvalidUsageException(
        ErrorId.CLOSED,
        "a kernel of rank %d waits on a communicator that has failed or is closed".formatted(rank),
        "look at the communicator's failure; close it after its last use");
  }

  /**
   * Returns the last wait of a GPU kernel on puts, gets and signals that ended at its deadline
   * without success, as a sentence: the ring that stayed full, or the signal that was not raised.
   * Empty if there was none. Any thread.
   */
  public Optional<String> kernelTimeout() {
    long problem = closed || ring == null ? 0 : ring.problem();
    int detail = (int) problem;
    String what =
        switch ((int) (problem >>> Integer.SIZE)) {
          case 0 -> null;
          case 1 ->
              "found the ring of %d puts and gets full, with one more for rank %d"
                  .formatted(ring.slots(), detail);
          case 2 -> "waited for signal %d".formatted(detail);
          case 3 -> "waited for puts to be sent or gets to be answered";
          default -> "waited for puts or gets to arrive";
        };
    return Optional.ofNullable(what)
        .map(
            wait ->
                "a kernel of rank %d %s until its deadline; look for the rank that did not take part"
                    .formatted(rank, wait));
  }

  /**
   * Frees this rank's memory. The other ranks unmap it when all have closed theirs and create or
   * register something else, or close the communicator. Idempotent.
   */
  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      if (ring != null) {
        ring.close();
      }
      memory.close();
    }
  }
}
