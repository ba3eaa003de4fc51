package org.nccl4j.api;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import org.nccl4j.api.group.GroupScope;
import org.nccl4j.api.group.OperationDispatcher;
import org.nccl4j.api.init.ChildCommunicators;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.api.window.RegisteredWindow;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.operation.Operation;

/**
 * One rank's handle of a communicator: a set of ranks, each with a device.
 *
 * <p>A call launches an operation into a stream and returns without waiting for other ranks. Every
 * rank makes the same collective calls in the same order, with the same count, type, operator and
 * root. The data carry a signature of their call: ranks that call different operations get an error
 * that names both calls, NCCL4J-CALLS-DIFFER. On GPUs, data of NVLS through slots and of copy
 * engines carry no signature and may be mixed up. NCCL_CHECK_MODE=DEBUG_GLOBAL compares every
 * collective before it begins, with one exchange for each call. Buffers are memory of this rank's
 * device, at least as large as the operation needs; an operation uses a larger buffer from its
 * start.
 *
 * <p>In place has NCCL's meaning: all-reduce, broadcast and reduce use the same memory for both
 * buffers; in all-gather {@code send} is the rank's part of {@code recv}; in reduce-scatter {@code
 * recv} is the rank's part of {@code send}; gather and scatter do the same at the root. Other
 * overlaps give undefined data. NCCL_CHECK_MODE=DEBUG_LOCAL refuses them.
 *
 * <p>Methods that create communicators wait for other ranks. Each has an asynchronous version whose
 * name ends in {@code Async}. Its future completes with the same result, timeouts and errors. In a
 * {@link Group} the waiting version is refused, because the thread may drive the ranks for which it
 * would wait. Cancelling the future aborts the attempt here and reports it to the other ranks; a
 * communicator that is created too late is closed.
 *
 * <p>Thread safety: any thread may call any method; operations take effect in the order of the
 * calls. All ranks need the same order, so several threads of a rank must agree on one order for
 * all ranks. Otherwise their calls differ, or, if the calls are equal, one thread gets the data of
 * another without an error. Threads that cannot agree need a communicator each: a split with its
 * own connections ({@link CommunicatorConfig#withSplitShare withSplitShare(false)}).
 *
 * <p>Errors of a running operation are thrown by its stream's synchronize, and {@link
 * #asyncError()} returns them. The communicator can then only be closed, or shrunk with {@link
 * ShrinkMode#ABORT}.
 *
 * <p>Every operation throws, before anything is launched: {@link InvalidArgumentException} for a
 * null, too small or foreign buffer, a negative count, or a root or peer out of range; {@link
 * InvalidUsageException} after {@link #close()} or for closed memory; after a failure, the failure.
 */
public final class Communicator implements AutoCloseable {
  /** The color of a rank that joins none of a split's communicators. */
  public static final int NO_COLOR = ChildCommunicators.NO_COLOR;

  private final CommunicatorState state;
  private final OperationDispatcher dispatcher;
  private final CommunicatorConfig config;

  /** Of error feedback; null for none. */
  private final DeviceMemory errors;

  /** Seen by {@link LeakDetector}; shared by its {@link #withOptions} views. */
  private final Object handle;

  private Communicator(CommunicatorState state, CommunicatorConfig config) {
    this(state, state.dispatcher(), config, null, new Object());
    LeakDetector.watch(handle, state);
  }

  private Communicator(
      CommunicatorState state,
      OperationDispatcher dispatcher,
      CommunicatorConfig config,
      DeviceMemory errors,
      Object handle) {
    this.state = state;
    this.dispatcher = dispatcher;
    this.config = config;
    this.errors = errors;
    this.handle = handle;
  }

  /** Joins a communicator with the default configuration. */
  public static Communicator initRank(int nRanks, UniqueId id, int rank, Device device) {
    return initRank(nRanks, id, rank, device, CommunicatorConfig.defaults());
  }

  /**
   * Joins a communicator. Returns when all its ranks have joined. Ranks may be in any processes and
   * threads; several ranks of one process need one thread each for this call.
   *
   * @param nRanks the number of ranks, the same on all ranks
   * @param id the same on all ranks; valid for one communicator
   * @param rank this rank, 0 to nRanks - 1, unique
   * @param device the device of this rank's buffers
   * @param config timeouts and settings
   * @throws InvalidArgumentException for a rank out of range
   * @throws InvalidUsageException if the ranks disagree: different numbers of ranks, a rank twice,
   *     different versions
   * @throws TimeoutException naming the ranks that did not join in time
   * @throws org.nccl4j.device.RemoteException with another rank's failure
   * @throws org.nccl4j.device.SystemErrorException if the root cannot be reached, or the operating
   *     system refuses a call
   */
  public static Communicator initRank(
      int nRanks, UniqueId id, int rank, Device device, CommunicatorConfig config) {
    return initRank(nRanks, Collections.singletonList(id), rank, device, config);
  }

  /**
   * Creates a communicator for a large job with several bootstrap roots, as {@link #initRank(int,
   * UniqueId, int, Device, CommunicatorConfig)} does with one. Each id has a root, which collects a
   * block of the ranks. Corresponds to ncclCommInitRankScalable.
   *
   * @param ids the same in the same order on all ranks, created by different processes; at most
   *     nRanks. One for several hundred ranks is enough
   */
  public static Communicator initRank(
      int nRanks, List<UniqueId> ids, int rank, Device device, CommunicatorConfig config) {
    GroupScope.refuseInGroup("initRank", "initRankAsync");
    return new Communicator(CommunicatorFactory.join(nRanks, ids, rank, device, config), config);
  }

  /** As {@link #initRank(int, UniqueId, int, Device, CommunicatorConfig)}, without waiting. */
  public static CompletableFuture<Communicator> initRankAsync(
      int nRanks, UniqueId id, int rank, Device device, CommunicatorConfig config) {
    return initRankAsync(nRanks, Collections.singletonList(id), rank, device, config);
  }

  /** Joins as {@link #initRank(int, List, int, Device, CommunicatorConfig)}, without waiting. */
  public static CompletableFuture<Communicator> initRankAsync(
      int nRanks, List<UniqueId> ids, int rank, Device device, CommunicatorConfig config) {
    List<UniqueId> given = ids == null ? null : new ArrayList<>(ids);
    return AsyncCalls.call(
        "nccl4j-init-" + rank,
        () -> initRank(nRanks, given, rank, device, config),
        Communicator::drop);
  }

  /** Creates a communicator with all its ranks in this process and the default configuration. */
  public static List<Communicator> initAll(List<Device> devices) {
    return initAll(devices, CommunicatorConfig.defaults());
  }

  /**
   * Creates a communicator with all its ranks in this process, one for each device. The host device
   * may occur several times.
   *
   * @return the communicators by rank
   */
  public static List<Communicator> initAll(List<Device> devices, CommunicatorConfig config) {
    return CommunicatorFactory.joinAll(devices, config).stream()
        .map(state -> new Communicator(state, config))
        .toList();
  }

  /** Creates communicators as {@link #initAll(List, CommunicatorConfig)} does, without waiting. */
  public static CompletableFuture<List<Communicator>> initAllAsync(
      List<Device> devices, CommunicatorConfig config) {
    List<Device> given = devices == null ? null : new ArrayList<>(devices);
    return AsyncCalls.call(
        "nccl4j-init", () -> initAll(given, config), made -> made.forEach(Communicator::drop));
  }

  /** Closes a communicator whose creation the caller has cancelled. */
  private void drop() {
    close(Duration.ZERO);
  }

  /**
   * Creates a communicator of the ranks with the same color, ordered by key and then by their rank
   * here. Every rank calls it, in the same order as operations.
   *
   * <p>The new communicator uses this one's connections and takes no device memory. The operations
   * of both are totally ordered: every rank calls them in the same order, whatever the threads and
   * streams. For communicators that work at the same time, or are called in different orders, see
   * {@link CommunicatorConfig#withSplitShare}.
   *
   * @param color 0 or more, or {@link #NO_COLOR}
   * @return the new communicator; empty for {@link #NO_COLOR}
   * @throws InvalidArgumentException for another negative color
   */
  public Optional<Communicator> split(int color, int key) {
    return split(color, key, CommunicatorConfig.defaults());
  }

  /** Splits as {@link #split(int, int)} does, with a name and settings over this communicator's. */
  public Optional<Communicator> split(int color, int key, CommunicatorConfig changes) {
    Arguments.notNull(changes, "configuration");
    GroupScope.refuseInGroup("split", "splitAsync");
    return new ChildCommunicators(state)
        .split(color, key, how(changes, changes.splitShare()))
        .map(made -> new Communicator(made, changes));
  }

  /**
   * Splits this communicator as {@link #split(int, int, CommunicatorConfig)} does, without waiting.
   * Splits, shrinks, registrations and other collective calls on one communicator happen in the
   * order of the calls, asynchronous or not. One that is cancelled before its turn is not made.
   */
  public CompletableFuture<Optional<Communicator>> splitAsync(
      int color, int key, CommunicatorConfig changes) {
    return inOrder(
        "split", () -> split(color, key, changes), made -> made.ifPresent(Communicator::drop));
  }

  private <T> CompletableFuture<T> inOrder(String name, Callable<T> body, Consumer<T> unwanted) {
    return AsyncCalls.inOrder(state.calls(), "nccl4j-" + name + "-" + rank(), body, unwanted);
  }

  /** The treatment of running operations when a communicator is shrunk. */
  public enum ShrinkMode {
    /** Waits for them. The communicator must not have failed, except by {@link #revoke}. */
    WAIT,
    /** Ends them with an error. Used to continue after a failure. */
    ABORT
  }

  /**
   * Creates a communicator without some ranks. The remaining ranks call it with the same excluded
   * ranks, which need not be alive. The remaining ranks then close this communicator.
   *
   * @param excluded ranks of this communicator; not this one
   * @throws TimeoutException naming the ranks that did not join in time
   */
  public Communicator shrink(Set<Integer> excluded, ShrinkMode mode) {
    return shrink(excluded, mode, CommunicatorConfig.defaults());
  }

  /** Shrinks as {@link #shrink(Set, ShrinkMode)} does, with settings over this communicator's. */
  public Communicator shrink(Set<Integer> excluded, ShrinkMode mode, CommunicatorConfig changes) {
    Arguments.notNull(excluded, "set of excluded ranks");
    Arguments.notNull(mode, "mode of shrinking");
    Arguments.notNull(changes, "configuration");
    GroupScope.refuseInGroup("shrink", "shrinkAsync");
    boolean abort = mode == ShrinkMode.ABORT;
    return new Communicator(
        new ChildCommunicators(state)
            .shrink(excluded, abort, how(changes, Optional.of(changes.shrinkShare()))),
        changes);
  }

  /**
   * Shrinks this communicator as {@link #shrink(Set, ShrinkMode, CommunicatorConfig)} does, without
   * waiting. The call follows earlier asynchronous creations from this communicator ({@link
   * #splitAsync}). With {@link ShrinkMode#ABORT} it begins at once, because earlier creations may
   * never end.
   */
  public CompletableFuture<Communicator> shrinkAsync(
      Set<Integer> excluded, ShrinkMode mode, CommunicatorConfig changes) {
    Set<Integer> given = excluded == null ? null : new HashSet<>(excluded);
    Callable<Communicator> body = () -> shrink(given, mode, changes);
    return mode == ShrinkMode.ABORT
        ? AsyncCalls.call("nccl4j-shrink-" + rank(), body, Communicator::drop)
        : inOrder("shrink", body, Communicator::drop);
  }

  /**
   * Creates a communicator of these ranks, with the same numbers, and of new ranks. The new ranks
   * join with {@link #initRank(int, UniqueId, int, Device, CommunicatorConfig)} and numbers from
   * {@link #nRanks()} on.
   *
   * @param nRanks the number of ranks of the new communicator
   * @param id the same on all its ranks, created by one of them; null on ranks of this communicator
   *     that do not know it, if another one of them passes it
   */
  public Communicator grow(int nRanks, UniqueId id, CommunicatorConfig changes) {
    GroupScope.refuseInGroup("grow", "growAsync");
    state.checkOpen("grow");
    CommunicatorFactory.requireGrowth(state, nRanks, changes);
    return initRank(nRanks, CommunicatorFactory.sharedId(state, id), rank(), device(), changes);
  }

  /** Grows this communicator as {@link #grow} does, without waiting. */
  public CompletableFuture<Communicator> growAsync(
      int nRanks, UniqueId id, CommunicatorConfig changes) {
    return inOrder("grow", () -> grow(nRanks, id, changes), Communicator::drop);
  }

  private static ChildCommunicators.How how(CommunicatorConfig changes, Optional<Boolean> share) {
    return new ChildCommunicators.How(changes.name(), changes.settings(), share);
  }

  /**
   * Returns a view of this communicator whose operations use other options. Every rank uses the
   * same options for the same operation. Keep the view: it plans its operations once.
   *
   * @throws InvalidArgumentException for names that do not exist
   */
  public Communicator withOptions(CallOptions options) {
    Arguments.notNull(options, "options");
    return new Communicator(state, options.dispatcher(state), config(), options.errors(), handle);
  }

  private static long shape(Operation operation, DataType type, int root) {
    return CallShape.of(operation, type, RedOp.SUM, root);
  }

  /**
   * Combines all ranks' send buffers and gives the result to all ranks.
   *
   * @param count elements of each buffer
   */
  public void allReduce(
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DataType type,
      RedOp op,
      DeviceStream stream) {
    dispatcher.call(
        CallShape.of(Operation.ALL_REDUCE, type, op, 0), errors, send, recv, count, stream);
  }

  /**
   * Reduces as {@link #allReduce(DeviceMemory, DeviceMemory, long, DataType, RedOp, DeviceStream)}
   * does, with a pre-multiplied sum or a user's function. Steps of functions need memory of the
   * communicator ({@link #memory}: "reductions by functions").
   *
   * @throws InvalidUsageException if a function was not given for this kind of device, or does not
   *     compile
   */
  public void allReduce(
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DataType type,
      ReductionOperator op,
      DeviceStream stream) {
    dispatcher.call(CallShape.of(Operation.ALL_REDUCE, type, op, 0), op, send, recv, count, stream);
  }

  /**
   * Copies the root's send buffer to all ranks.
   *
   * @param send read only on the root; may be null on other ranks
   * @param count elements of each buffer
   */
  public void broadcast(
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DataType type,
      int root,
      DeviceStream stream) {
    dispatcher.call(shape(Operation.BROADCAST, type, root), send, recv, count, stream);
  }

  /**
   * Combines all ranks' send buffers and gives the result to the root.
   *
   * @param recv written only on the root; may be null on other ranks
   * @param count elements of each buffer
   */
  public void reduce(
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DataType type,
      RedOp op,
      int root,
      DeviceStream stream) {
    dispatcher.call(CallShape.of(Operation.REDUCE, type, op, root), send, recv, count, stream);
  }

  /** Reduces as the other reduce does, with an operator as in all-reduce. */
  public void reduce(
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DataType type,
      ReductionOperator op,
      int root,
      DeviceStream stream) {
    dispatcher.call(CallShape.of(Operation.REDUCE, type, op, root), op, send, recv, count, stream);
  }

  /**
   * Gathers every rank's send buffer on all ranks, in rank order.
   *
   * @param recv nRanks x sendCount elements
   * @param sendCount elements that each rank sends
   */
  public void allGather(
      DeviceMemory send, DeviceMemory recv, long sendCount, DataType type, DeviceStream stream) {
    dispatcher.call(shape(Operation.ALL_GATHER, type, 0), send, recv, sendCount, stream);
  }

  /**
   * Combines all ranks' send buffers and gives part r of the result to rank r.
   *
   * @param send nRanks x recvCount elements
   * @param recvCount elements that each rank receives
   */
  public void reduceScatter(
      DeviceMemory send,
      DeviceMemory recv,
      long recvCount,
      DataType type,
      RedOp op,
      DeviceStream stream) {
    dispatcher.call(
        CallShape.of(Operation.REDUCE_SCATTER, type, op, 0), errors, send, recv, recvCount, stream);
  }

  /** Reduces and scatters as the other reduce-scatter does, with an operator as in all-reduce. */
  public void reduceScatter(
      DeviceMemory send,
      DeviceMemory recv,
      long recvCount,
      DataType type,
      ReductionOperator op,
      DeviceStream stream) {
    dispatcher.call(
        CallShape.of(Operation.REDUCE_SCATTER, type, op, 0), op, send, recv, recvCount, stream);
  }

  /**
   * Gathers as all-gather does, with a count for each rank.
   *
   * @param send this rank's part, counts[rank()] elements
   * @param recv all parts
   * @param counts elements of each rank, the same on all ranks
   * @param offsets the start of each rank's part in recv, in elements; null for contiguous parts
   */
  public void allGatherV(
      DeviceMemory send,
      DeviceMemory recv,
      long[] counts,
      long[] offsets,
      DataType type,
      DeviceStream stream) {
    new VectorCollectives(this).allGatherV(send, recv, counts, offsets, type, stream);
  }

  /**
   * Reduces and scatters as reduce-scatter does, with a count for each rank.
   *
   * @param send the parts of all ranks, contiguous
   * @param recv this rank's part of the result, counts[rank()] elements; may be its part of send
   * @param counts elements of each rank, the same on all ranks
   */
  public void reduceScatterV(
      DeviceMemory send,
      DeviceMemory recv,
      long[] counts,
      DataType type,
      RedOp op,
      DeviceStream stream) {
    new VectorCollectives(this).reduceScatterV(send, recv, counts, type, op, stream);
  }

  /** Reduces and scatters as the other reduceScatterV, with an operator as in all-reduce. */
  public void reduceScatterV(
      DeviceMemory send,
      DeviceMemory recv,
      long[] counts,
      DataType type,
      ReductionOperator op,
      DeviceStream stream) {
    new VectorCollectives(this).reduceScatterV(send, recv, counts, type, op, stream);
  }

  /**
   * Exchanges as all-to-all does, with a count for each pair of ranks. {@link RaggedExchange} takes
   * counts in device memory.
   *
   * @param sendCounts elements for each rank
   * @param sendOffsets their starts in send, in elements; null for contiguous parts
   * @param recvCounts elements from each rank, equal to the count that it sends to this rank
   * @param recvOffsets their starts in recv, in elements; null for contiguous parts
   */
  public void allToAllV(
      DeviceMemory send,
      long[] sendCounts,
      long[] sendOffsets,
      DeviceMemory recv,
      long[] recvCounts,
      long[] recvOffsets,
      DataType type,
      DeviceStream stream) {
    new VectorCollectives(this)
        .allToAllV(send, sendCounts, sendOffsets, recv, recvCounts, recvOffsets, type, stream);
  }

  /**
   * Gathers as gather does, with a count for each rank. Send buffer, counts and offsets are as in
   * {@link #allGatherV}.
   *
   * @param recv all parts on the root; may be null on other ranks
   */
  public void gatherV(
      DeviceMemory send,
      DeviceMemory recv,
      long[] counts,
      long[] offsets,
      DataType type,
      int root,
      DeviceStream stream) {
    new VectorCollectives(this).gatherV(send, recv, counts, offsets, type, root, stream);
  }

  /**
   * Scatters as scatter does, with a count for each rank.
   *
   * @param send all parts on the root; may be null on other ranks
   * @param recv this rank's part, counts[rank()] elements
   * @param counts elements of each rank, the same on all ranks
   * @param offsets the start of each rank's part in send, in elements; null for contiguous parts
   */
  public void scatterV(
      DeviceMemory send,
      DeviceMemory recv,
      long[] counts,
      long[] offsets,
      DataType type,
      int root,
      DeviceStream stream) {
    new VectorCollectives(this).scatterV(send, recv, counts, offsets, type, root, stream);
  }

  /**
   * Sends part p of every rank's send buffer to rank p, in rank order.
   *
   * @param send nRanks x count elements; must not overlap recv
   * @param recv nRanks x count elements
   * @param count elements that each rank sends to each rank
   */
  public void allToAll(
      DeviceMemory send, DeviceMemory recv, long count, DataType type, DeviceStream stream) {
    dispatcher.call(shape(Operation.ALL_TO_ALL, type, 0), send, recv, count, stream);
  }

  /**
   * Gathers every rank's send buffer on the root, in rank order.
   *
   * @param recv nRanks x sendCount elements on the root; may be null on other ranks
   * @param sendCount elements that each rank sends
   */
  public void gather(
      DeviceMemory send,
      DeviceMemory recv,
      long sendCount,
      DataType type,
      int root,
      DeviceStream stream) {
    dispatcher.call(shape(Operation.GATHER, type, root), send, recv, sendCount, stream);
  }

  /**
   * Sends part r of the root's send buffer to rank r.
   *
   * @param send nRanks x recvCount elements on the root; may be null on other ranks
   * @param recvCount elements that each rank receives
   */
  public void scatter(
      DeviceMemory send,
      DeviceMemory recv,
      long recvCount,
      DataType type,
      int root,
      DeviceStream stream) {
    dispatcher.call(shape(Operation.SCATTER, type, root), send, recv, recvCount, stream);
  }

  /**
   * Sends to a rank that makes the matching {@link #recv} call. Put sends and receives that depend
   * on each other into one {@link Group}.
   *
   * @param count elements, the same as the receiver's
   */
  public void send(DeviceMemory buffer, long count, DataType type, int peer, DeviceStream stream) {
    dispatcher.call(shape(Operation.SEND, type, peer), buffer, null, count, stream);
  }

  /** Receives from a rank that makes the matching {@link #send} call, with the same count. */
  public void recv(DeviceMemory buffer, long count, DataType type, int peer, DeviceStream stream) {
    dispatcher.call(shape(Operation.RECV, type, peer), null, buffer, count, stream);
  }

  /**
   * Registers memory of all ranks as a window. Operations whose buffers lie in windows, on every
   * rank at the same offset, move data directly between the buffers, and other ranks may write into
   * the window ({@link #putSignal}). Collective: every rank calls it, with the same number of
   * bytes, in the same order; it returns when all ranks have called it. In a {@link Group} it takes
   * effect at the end of the group, so that one thread can register for several ranks. Corresponds
   * to ncclCommWindowRegister.
   *
   * <p>An operation uses windows only if its whole buffer lies in one, which must then be so on all
   * ranks. A buffer that is partly outside counts as a buffer without a window.
   *
   * @param memory from {@link Device#memAlloc}, or a slice of such memory; several windows may lie
   *     in one allocation
   * @throws InvalidArgumentException on all ranks, naming one rank: for memory that other ranks
   *     cannot map, sizes or offsets that differ between ranks, or a full range of windows
   * @throws InvalidUsageException on all ranks: if their calls differ
   */
  public Window registerWindow(DeviceMemory memory) {
    return registerWindow(memory, Window.Mode.SYMMETRIC);
  }

  /**
   * Registers memory as {@link #registerWindow(DeviceMemory)} does, for the operations of a mode.
   * If ranks pass different modes, collectives do not use the window.
   */
  public Window registerWindow(DeviceMemory memory, Window.Mode mode) {
    return Window.register(state, memory, mode);
  }

  /**
   * Ends this rank's use of a window without waiting for the other ranks; the memory stays its
   * owner's. Corresponds to ncclCommWindowDeregister. All ranks call it, each for itself, when the
   * operations of all ranks that use the window have ended. The memory is no longer mapped when all
   * have called it; by NVLink SHARP, or after captures into graphs, when they register another
   * window too, or close. The close of a communicator deregisters its remaining windows.
   *
   * @throws InvalidUsageException if the window was deregistered before, belongs to another
   *     communicator, or operations of this rank still use it: then it stays registered
   */
  public void deregisterWindow(Window window) {
    state.release(Arguments.notNull(window, "window").toDeregister(state));
  }

  /**
   * Ends the use of a window on all ranks, and waits for them. Collective, as {@link
   * #registerWindow}. On return, all puts into the window have arrived.
   *
   * @throws InvalidUsageException as {@link #deregisterWindow}; on all ranks, if operations of a
   *     rank still use the window: then it stays registered
   */
  public void deregisterWindowOnAllRanks(Window window) {
    GroupScope.refuseWhereSimulated("deregisterWindowOnAllRanks");
    RegisteredWindow registered = Arguments.notNull(window, "window").toDeregister(state);
    GroupScope.meet(state.windows(), () -> state.deregister(registered));
  }

  /**
   * Registers memory of this rank, so that collectives on it need no copy if the ranks can access
   * each other's memory. Corresponds to ncclCommRegister. Not collective: returns at once.
   *
   * <p>As in NCCL, register an operation's buffers on all its ranks or on none, at the same offset
   * in registered memory of the same size. The first operation on it, outside the capture of a
   * graph, must be the first on all ranks: it waits for them, and all register the memory as a
   * window. So a thread that drives several ranks calls that operation in a {@link Group}. If one
   * rank's memory cannot be used, or that operation's buffers begin at other offsets on other
   * ranks, operations work as if nothing were registered, and {@link Registration#obstacle} gives
   * the reason. A window has the same effect without that wait ({@link #registerWindow}).
   *
   * <p>Between machines, networks send whole steps of the host device from registered memory, and
   * InfiniBand receives there what is only copied. Ranks need not register alike, and none waits.
   *
   * @param memory from {@link Device#memAlloc}, or a slice of such memory; other memory is used by
   *     networks alone
   * @throws InvalidArgumentException for null, no bytes, or memory of another device
   * @throws InvalidUsageException for closed memory
   */
  public Registration register(DeviceMemory memory) {
    return new Registration(state, state.register(memory));
  }

  /**
   * Ends the use of registered memory on this rank; the memory is the caller's again. Corresponds
   * to ncclCommDeregister. Not collective. The other ranks unmap it when they have deregistered too
   * and register other memory, or close. The close of a communicator deregisters its remaining
   * memory.
   *
   * @throws InvalidUsageException if it belongs to another communicator, was deregistered before,
   *     or is used by operations that have not ended; and after close
   */
  public void deregister(Registration registration) {
    state.deregister(Arguments.notNull(registration, "registration").registered());
  }

  /**
   * Creates what the user's own kernels need besides windows. Collective, as {@link
   * #registerWindow}, but not in a group. The first call with signals makes connections for puts.
   * Corresponds to ncclDevCommCreate.
   *
   * @throws InvalidArgumentException on all ranks, naming one: for fewer than 0 or more than 4096
   *     of any, or numbers that differ between ranks
   * @throws InvalidUsageException in a group; on all ranks, if their calls differ, or if puts do
   *     not reach all ranks
   */
  public DeviceCommunicator createDeviceCommunicator(DeviceCommunicator.Requirements requirements) {
    GroupScope.refuseInGroup("createDeviceCommunicator");
    return DeviceCommunicator.create(state, requirements);
  }

  /**
   * Creates dispatch and combine for a mixture of experts. Collective; ranks of one process need a
   * thread each.
   *
   * @throws InvalidArgumentException for sizes that these ranks cannot have, or that differ
   */
  public ExpertExchange createExpertExchange(ExpertConfig sizes) {
    return ExpertExchange.create(state, dispatcher, sizes);
  }

  /**
   * Creates an exchange of elements whose counts lie in device memory. Collective; ranks of one
   * process need a thread each.
   *
   * @throws InvalidArgumentException on all ranks, for sizes that differ
   * @throws NcclException on all ranks, if one of them lacks memory
   */
  public RaggedExchange createRaggedExchange(RaggedConfig sizes) {
    return RaggedExchange.create(this, sizes, null);
  }

  /**
   * Creates an exchange that receives into a window, as {@link
   * #createRaggedExchange(RaggedConfig)}.
   *
   * @param received a window of this communicator, the same on all ranks, of at least maxReceived
   *     elements. Close the exchange before it is deregistered
   * @throws InvalidArgumentException on all ranks, for a window that is too small
   * @throws InvalidUsageException on all ranks, for a window of another communicator, or one that
   *     is not registered any more
   */
  public RaggedExchange createRaggedExchange(RaggedConfig sizes, Window received) {
    RegisteredWindow window = Arguments.notNull(received, "window of the elements").registered();
    return RaggedExchange.create(this, sizes, window);
  }

  /**
   * Writes into a rank's window and then signals that rank, without its participation. Between GPUs
   * of several machines the call cannot be captured into a graph.
   *
   * @param source the data
   * @param count elements; with 0 it only signals
   * @param peer the rank of the window
   * @param window a window of this communicator
   * @param offset the place in the peer's window, in bytes
   * @throws InvalidArgumentException if the data do not fit, the peer is not a rank, or the peer
   *     cannot be reached: it is on another machine and the communicator shares its parent's
   *     connections
   * @throws InvalidUsageException if the window belongs to another communicator
   */
  public void putSignal(
      DeviceMemory source,
      long count,
      DataType type,
      int peer,
      Window window,
      long offset,
      DeviceStream stream) {
    RegisteredWindow registered = Arguments.notNull(window, "window").registered();
    state.oneSided().put(source, count, type, peer, registered, offset, stream);
  }

  /**
   * Signals a rank, after all earlier puts of this rank to it in the same stream.
   *
   * @throws InvalidUsageException before the first window is registered
   */
  public void signal(int peer, DeviceStream stream) {
    state.oneSided().signal(peer, stream);
  }

  /**
   * Makes a stream wait until ranks have signalled this rank. A signal ends one wait.
   *
   * @param signals the number of signals for each rank
   * @throws InvalidArgumentException for an invalid rank, or fewer than 1 signal
   * @throws InvalidUsageException before the first window is registered
   */
  public void waitSignal(Map<Integer, Integer> signals, DeviceStream stream) {
    state.oneSided().await(Arguments.notNull(signals, "signals to wait for"), stream);
  }

  /** This rank. */
  public int rank() {
    return state.rank();
  }

  /** The number of ranks. */
  public int nRanks() {
    return state.nRanks();
  }

  /** The ranks, this one included, that reach each other's memory by loads and stores. */
  public List<Integer> lsaTeam() {
    return state.team().ranks();
  }

  /** This rank's device. */
  public Device device() {
    return state.device();
  }

  /** The name of the configuration, or a number. */
  public String name() {
    return state.name();
  }

  /** The transport to each other rank, by rank; this rank has no entry. */
  public Map<Integer, String> transports() {
    return state.routes();
  }

  /**
   * The planner's choice for an operation of a size, as a table: every algorithm and protocol with
   * its predicted time, the choice, and the reason; the same for buffers in windows, if all ranks
   * can access each other's memory; at the end the transports to the other ranks.
   *
   * @param operation of all ranks, or a send or a receive
   * @throws InvalidArgumentException for another operation or a negative count
   */
  public String explain(Operation operation, long count, DataType type) {
    return dispatcher.explain(operation, count, type) + state.explainRoutes();
  }

  /** The algorithm and the protocol for an operation of a size. Throws as {@link #explain}. */
  public ChosenAlgorithm chosenAlgorithm(Operation operation, long count, DataType type) {
    return ChosenAlgorithm.of(dispatcher.choice(operation, count, type));
  }

  /**
   * Returns the algorithm as {@link #chosenAlgorithm} does, for buffers that lie in windows or are
   * registered on all ranks, out of place.
   */
  public ChosenAlgorithm chosenAlgorithmInWindows(Operation operation, long count, DataType type) {
    return ChosenAlgorithm.of(dispatcher.choiceInWindows(operation, count, type));
  }

  /**
   * Plans a later collective, as a sum and with root 0, so that its first call takes less time.
   * Launches nothing and waits for no other rank. Has an effect only on GPUs, and none on a
   * collective for which NVLink SHARP has to be set up first, which all ranks do in its first call.
   *
   * @param operation an all-reduce, reduce, broadcast, all-gather or reduce-scatter
   * @throws InvalidArgumentException for another operation, or a negative count
   */
  public void prepare(Operation operation, long count, DataType type) {
    dispatcher.prepare(operation, count, type);
  }

  /**
   * Prepares a later reduction as {@link #prepare(Operation, long, DataType)} does; the code of a
   * function is compiled and loaded, so that its errors come now.
   *
   * @param operation an all-reduce, reduce or reduce-scatter
   * @throws InvalidUsageException as in the call
   */
  public void prepare(Operation operation, long count, DataType type, ReductionOperator op) {
    dispatcher.prepare(operation, count, type, op);
  }

  /**
   * The blocks (CTAs) of the last operation that this rank launched; of several kernels those of
   * the largest. 0 before the first operation, and on the host device. {@link
   * CommunicatorConfig#withMaxCtas} and {@link CommunicatorConfig#withCtaPolicy} limit them.
   */
  public int lastBlocks() {
    return dispatcher.lastBlocks();
  }

  /** True while the communicator is suspended. */
  public boolean isSuspended() {
    return state.isSuspended();
  }

  /** Bytes of this rank's device memory by purpose; empty while suspended and after close. */
  public Map<String, Long> memory() {
    return state.memory();
  }

  /**
   * The first word of these ranks' lines in a table of costs (NCCL4J_COSTS_FILE), such as
   * 2x4/Socket for two hosts with 4 ranks each; "" if a table cannot have them.
   */
  public String costTableKey() {
    return dispatcher.planner().ranksInTables();
  }

  /** The configuration of the creation. */
  public CommunicatorConfig config() {
    return config;
  }

  /** Returns the communicator's name, rank and number of ranks, for messages and logs. */
  @Override
  public String toString() {
    return "communicator %s, rank %d of %d".formatted(name(), rank(), nRanks());
  }

  /** The first failure of this communicator, on this rank or another, if there was one. */
  public Optional<NcclException> asyncError() {
    return Optional.ofNullable(state.failure());
  }

  /**
   * Frees the device memory of this communicator until {@link #resume}: connections, kernels'
   * tables, NVLS buffers and the address range of windows. Waits for this rank's operations.
   * Collective: all ranks call it. If one rank cannot suspend, the call fails on all ranks.
   *
   * <p>While suspended, operations, splits and registrations are refused. The user's memory stays.
   * Plans and graphs that were captured on the communicator become invalid and are refused.
   *
   * @throws InvalidUsageException naming the rank whose communicator is a split, is used by splits,
   *     has windows or device communicators, or has operations that do not end; then nothing has
   *     changed
   */
  public void suspend() {
    GroupScope.refuseInGroup("suspend");
    state.suspend();
  }

  /**
   * Allocates the memory that {@link #suspend} freed, and allows operations. Collective. After its
   * return, no operation of another rank can be lost. Takes about as long as the creation of a
   * communicator.
   *
   * @throws InvalidUsageException if it is not suspended
   * @throws NcclException as in the creation of a communicator; the communicator can then only be
   *     closed
   */
  public void resume() {
    GroupScope.refuseInGroup("resume");
    state.resume();
  }

  /**
   * Ends all operations of this communicator on this rank with an error, and reports the abort to
   * the other ranks. Neither waits nor frees memory; {@link #close()} does.
   */
  public void abort() {
    state.abort();
  }

  /**
   * Ends all operations of this communicator on all ranks with the error that it was revoked. A
   * rank that has detected a problem calls it, so that all ranks can call {@link #shrink}, or if
   * all are alive {@link #split}; these wait until the operations have ended.
   */
  public void revoke() {
    state.revoke();
  }

  /**
   * Refuses further operations on this rank. Corresponds to ncclCommFinalize.
   *
   * @return completes when the operations called before have ended; exceptionally after a failure
   */
  public CompletableFuture<Void> finish() {
    state.finish();
    return AsyncCalls.run("nccl4j-finish-" + rank(), state::awaitFinish);
  }

  /**
   * Waits for this rank's operations, at most for their timeout, and frees the communicator's
   * resources. Does not wait for other ranks. Other ranks that have called operations which this
   * rank has not called, or do so later, fail at once. Ranks that wait for a signal, or have this
   * communicator's operations in CUDA graphs, wait until their deadline. Idempotent.
   */
  @Override
  public void close() {
    close(state.operationTimeout());
  }

  /**
   * Closes as {@link #close()} does, but waits for operations only for a given time, and then
   * aborts them. Memory that an operation still uses 5 s later is never freed, and the log says so.
   *
   * @param timeout may be zero
   */
  public void close(Duration timeout) {
    Arguments.notNull(timeout, "timeout of the close");
    state.close(timeout);
  }

  CommunicatorState state() {
    return state;
  }

  OperationDispatcher dispatcher() {
    return dispatcher;
  }
}
