package org.nccl4j.api;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.nccl4j.api.group.Groups;
import org.nccl4j.api.group.RankQueue;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.api.init.Offspring;
import org.nccl4j.api.plan.Func;
import org.nccl4j.api.window.RegisteredWindow;
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

/**
 * A group of ranks, each with a device, that communicate; this object is one rank's place in it.
 *
 * <p>Operations are launched into a stream and run there; the call itself does not wait for other
 * ranks. Every rank makes the same collective calls in the same order with the same count, type,
 * operator and root. Buffers are memories of this rank's device, as large as the operation needs (a
 * larger one is used from its start). In place means what it means in NCCL: all-reduce, broadcast
 * and reduce with the same memory for both; all-gather with {@code send} being the rank's part of
 * {@code recv}; reduce-scatter with {@code recv} being the rank's part of {@code send}; gather and
 * scatter likewise at the root. Other overlaps give undefined data.
 *
 * <p>Any thread may call any method; operations take effect in the order of the calls. Errors of an
 * operation that has begun come out of its stream's synchronize and {@link #asyncError()}; the
 * communicator is then of no further use but to be closed.
 *
 * <p>Every operation throws, before anything is launched: {@link InvalidArgumentException} for a
 * null, too small or foreign buffer, a negative count, or a root or peer out of range; {@link
 * InvalidUsageException} after {@link #close()} or for closed memory; and the cause itself after a
 * failure.
 */
public final class Communicator implements AutoCloseable {
  /** The color of a rank that will be in none of the communicators that a split makes. */
  public static final int NO_COLOR = Offspring.NO_COLOR;

  private final CommunicatorState state;
  private final RankQueue queue;
  private final CommunicatorConfig config;

  private Communicator(CommunicatorState state, CommunicatorConfig config) {
    this(state, state.queue(), config);
  }

  private Communicator(CommunicatorState state, RankQueue queue, CommunicatorConfig config) {
    this.state = state;
    this.queue = queue;
    this.config = config;
  }

  /**
   * Joins a communicator with the default configuration.
   *
   * @see #initRank(int, UniqueId, int, Device, CommunicatorConfig)
   */
  public static Communicator initRank(int nRanks, UniqueId id, int rank, Device device) {
    return initRank(nRanks, id, rank, device, CommunicatorConfig.defaults());
  }

  /**
   * Joins a communicator, and returns once all its ranks have. Ranks may be in any processes and
   * threads; several ranks of one process need a thread each for this call.
   *
   * @param nRanks how many ranks there will be, the same for all
   * @param id the same for all; good for one communicator
   * @param rank this one, 0 to nRanks - 1, each once
   * @param device where this rank's buffers are
   * @param config how; deadlines and settings
   * @throws InvalidArgumentException for a rank out of range
   * @throws InvalidUsageException if ranks disagree: another count, a rank twice, another version
   * @throws TimeoutException naming the ranks that did not come in time
   * @throws org.nccl4j.device.RemoteException with another rank's failure
   * @throws org.nccl4j.device.SystemErrorException if the root cannot be reached, and for what the
   *     operating system refuses
   */
  public static Communicator initRank(
      int nRanks, UniqueId id, int rank, Device device, CommunicatorConfig config) {
    if (nRanks < 1 || rank < 0 || rank >= nRanks) {
      throw new InvalidArgumentException(
          "rank %d of %d ranks".formatted(rank, nRanks), "pass a rank from 0 to nRanks - 1");
    }
    return new Communicator(Joining.join(nRanks, id, rank, device, config), config);
  }

  /**
   * As {@link #initRank(int, UniqueId, int, Device, CommunicatorConfig)}, without waiting. To
   * cancel the future ends the attempt.
   *
   * @return the communicator, or what initRank would throw
   */
  public static CompletableFuture<Communicator> initRankAsync(
      int nRanks, UniqueId id, int rank, Device device, CommunicatorConfig config) {
    return Background.call("nccl4j-init-" + rank, () -> initRank(nRanks, id, rank, device, config));
  }

  /** A communicator with all its ranks in this process and default configuration. */
  public static List<Communicator> initAll(List<Device> devices) {
    return initAll(devices, CommunicatorConfig.defaults());
  }

  /**
   * A communicator with all its ranks in this process, one for each device; the host device may be
   * named several times.
   *
   * @return the communicators by rank
   */
  public static List<Communicator> initAll(List<Device> devices, CommunicatorConfig config) {
    return Joining.joinAll(devices, config).stream()
        .map(state -> new Communicator(state, config))
        .toList();
  }

  /** This rank. */
  public int rank() {
    return state.rank();
  }

  /** All ranks. */
  public int nRanks() {
    return state.nRanks();
  }

  /** This rank's device. */
  public Device device() {
    return state.device();
  }

  /** The name given in the configuration, or a number. */
  public String name() {
    return state.name();
  }

  /** The transport that reaches each other rank, by rank; this rank is missing. */
  public Map<Integer, String> transports() {
    return state.routes();
  }

  /**
   * Combines all ranks' send buffers, the result to all.
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
    queue.call(Func.ALL_REDUCE, send, recv, count, type, op, 0, stream);
  }

  /**
   * As {@link #allReduce(DeviceMemory, DeviceMemory, long, DataType, RedOp, DeviceStream)}, by a
   * pre-multiplied sum or a reduction that the user supplies.
   *
   * @throws InvalidUsageException on a device that cannot; the host can
   */
  public void allReduce(
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DataType type,
      ReductionOperator op,
      DeviceStream stream) {
    queue.call(Func.ALL_REDUCE, send, recv, count, type, op, 0, stream);
  }

  /**
   * The root's send buffer to all ranks.
   *
   * @param send looked at on the root alone; elsewhere it may be null
   * @param count elements of each buffer
   */
  public void broadcast(
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DataType type,
      int root,
      DeviceStream stream) {
    queue.call(Func.BROADCAST, send, recv, count, type, RedOp.SUM, root, stream);
  }

  /**
   * Combines all ranks' send buffers, the result to the root.
   *
   * @param recv written on the root alone; elsewhere it may be null
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
    queue.call(Func.REDUCE, send, recv, count, type, op, root, stream);
  }

  /** As the other reduce, by an operator as for all-reduce. */
  public void reduce(
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DataType type,
      ReductionOperator op,
      int root,
      DeviceStream stream) {
    queue.call(Func.REDUCE, send, recv, count, type, op, root, stream);
  }

  /**
   * Every rank's send buffer to all, in rank order.
   *
   * @param recv nRanks x sendCount elements
   * @param sendCount elements that each rank sends
   */
  public void allGather(
      DeviceMemory send, DeviceMemory recv, long sendCount, DataType type, DeviceStream stream) {
    queue.call(Func.ALL_GATHER, send, recv, sendCount, type, RedOp.SUM, 0, stream);
  }

  /**
   * Combines all ranks' send buffers, part r of the result to rank r.
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
    queue.call(Func.REDUCE_SCATTER, send, recv, recvCount, type, op, 0, stream);
  }

  /** As the other reduce-scatter, by an operator as for all-reduce. */
  public void reduceScatter(
      DeviceMemory send,
      DeviceMemory recv,
      long recvCount,
      DataType type,
      ReductionOperator op,
      DeviceStream stream) {
    queue.call(Func.REDUCE_SCATTER, send, recv, recvCount, type, op, 0, stream);
  }

  /**
   * As all-gather, with a part of its own size from each rank.
   *
   * @param send this rank's part, counts[rank()] elements
   * @param recv all parts
   * @param counts elements of each rank, the same on all ranks
   * @param offsets where each rank's part begins in recv, in elements; null for one after the other
   */
  public void allGatherV(
      DeviceMemory send,
      DeviceMemory recv,
      long[] counts,
      long[] offsets,
      DataType type,
      DeviceStream stream) {
    new VariableCalls(this).allGatherV(send, recv, parts("counts", counts, offsets), type, stream);
  }

  /**
   * As reduce-scatter, with a part of its own size for each rank.
   *
   * @param send the parts of all ranks, one after the other
   * @param recv this rank's part of the result, counts[rank()] elements
   * @param counts elements of each rank, the same on all ranks
   */
  public void reduceScatterV(
      DeviceMemory send,
      DeviceMemory recv,
      long[] counts,
      DataType type,
      RedOp op,
      DeviceStream stream) {
    new VariableCalls(this)
        .reduceScatterV(send, recv, parts("counts", counts, null), type, op, stream);
  }

  /**
   * As all-to-all, with a part of its own size for each pair of ranks.
   *
   * @param sendCounts elements for each rank
   * @param sendOffsets where they begin in send, in elements; null for one after the other
   * @param recvCounts elements from each rank, as many as it sends to this one
   * @param recvOffsets where they go in recv, in elements; null for one after the other
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
    new VariableCalls(this)
        .allToAllV(
            send,
            parts("sendCounts", sendCounts, sendOffsets),
            recv,
            parts("recvCounts", recvCounts, recvOffsets),
            type,
            stream);
  }

  private static VariableCalls.Parts parts(String name, long[] counts, long[] offsets) {
    return offsets == null
        ? VariableCalls.Parts.packed(name, counts)
        : new VariableCalls.Parts(name, counts, offsets);
  }

  /**
   * Part p of every rank's send buffer to rank p, in rank order.
   *
   * @param send nRanks x count elements; must not overlap recv
   * @param recv nRanks x count elements
   * @param count elements that each rank sends to each
   */
  public void allToAll(
      DeviceMemory send, DeviceMemory recv, long count, DataType type, DeviceStream stream) {
    queue.call(Func.ALL_TO_ALL, send, recv, count, type, RedOp.SUM, 0, stream);
  }

  /**
   * Every rank's send buffer to the root, in rank order.
   *
   * @param recv nRanks x sendCount elements on the root; elsewhere it may be null
   * @param sendCount elements that each rank sends
   */
  public void gather(
      DeviceMemory send,
      DeviceMemory recv,
      long sendCount,
      DataType type,
      int root,
      DeviceStream stream) {
    queue.call(Func.GATHER, send, recv, sendCount, type, RedOp.SUM, root, stream);
  }

  /**
   * Part r of the root's send buffer to rank r.
   *
   * @param send nRanks x recvCount elements on the root; elsewhere it may be null
   * @param recvCount elements that each rank receives
   */
  public void scatter(
      DeviceMemory send,
      DeviceMemory recv,
      long recvCount,
      DataType type,
      int root,
      DeviceStream stream) {
    queue.call(Func.SCATTER, send, recv, recvCount, type, RedOp.SUM, root, stream);
  }

  /**
   * Sends to a rank that makes the matching {@link #recv} call. Sends and receives that depend on
   * each other belong in one {@link Group}.
   *
   * @param count elements, the same as the receiver's
   */
  public void send(DeviceMemory buffer, long count, DataType type, int peer, DeviceStream stream) {
    queue.call(Func.SEND, buffer, null, count, type, RedOp.SUM, peer, stream);
  }

  /**
   * Receives from a rank that makes the matching {@link #send} call.
   *
   * @param count elements, the same as the sender's
   */
  public void recv(DeviceMemory buffer, long count, DataType type, int peer, DeviceStream stream) {
    queue.call(Func.RECV, null, buffer, count, type, RedOp.SUM, peer, stream);
  }

  /**
   * Registers memory of all ranks as a window: operations whose buffers lie in windows, on every
   * rank at the same offset, go without a copy; and other ranks may write into it ({@link
   * #putSignal}). Collective: every rank calls it, with as many bytes, in the same order, and it
   * returns once all have. In a {@link Group} it takes effect at the group's end, so that one
   * thread can register for several ranks.
   *
   * <p>An operation takes the way of windows only if its whole buffer lies in one; that must then
   * be so on all ranks. A buffer that is partly outside is like one without a window.
   *
   * @param memory from {@link Device#memAlloc}, or a slice of that; several windows may lie in one
   *     allocation
   * @throws InvalidArgumentException on all ranks, naming one: for memory that other ranks cannot
   *     map, sizes or offsets that differ between ranks, or no more room in the windows' range
   * @throws InvalidUsageException on all ranks: if they call different things
   */
  public Window registerWindow(DeviceMemory memory) {
    Window window = new Window(state.name());
    Groups.meet(() -> window.complete(state.windows().register(memory), state.windows()));
    return window;
  }

  /**
   * Ends the use of a window. Collective, as {@link #registerWindow}; the memory stays its owner's.
   * What is still registered when a communicator closes is deregistered then.
   *
   * @throws InvalidUsageException if it was deregistered before, or is of another communicator; on
   *     all ranks, if operations of any still use it: then it stays
   */
  public void deregisterWindow(Window window) {
    RegisteredWindow registered = window.registered();
    if (!state.windows().has(registered)) {
      throw new InvalidUsageException(
          "rank %d deregisters %s of another communicator, or twice, in communicator %s"
              .formatted(rank(), window, name()),
          "deregister each window once, with the communicator that registered it");
    }
    Groups.meet(
        () -> {
          state.deregister(registered);
          window.freeHandle();
        });
  }

  /**
   * What kernels of the user's own need beside windows. Collective, as {@link #registerWindow}, but
   * not in a group.
   *
   * @param barriers how many barriers of the team kernels will use, often one for each block
   * @param slots values of 8 bytes that a rank can send each other in one epoch of an LL all-to-all
   * @throws InvalidArgumentException for more than 4096 of either
   */
  public DeviceCommunicator createDeviceCommunicator(int barriers, int slots) {
    return DeviceCommunicator.create(state.windows(), rank(), barriers, slots);
  }

  /**
   * Writes into a rank's window and then signals that rank, without its taking part. The rank must
   * be on this machine.
   *
   * @param source what is written
   * @param count elements; 0 writes nothing and signals
   * @param peer whose window
   * @param window a window of this communicator
   * @param offset where in the peer's window, in bytes
   * @throws InvalidArgumentException if the data do not fit, or the peer is no rank or not in reach
   */
  public void putSignal(
      DeviceMemory source,
      long count,
      DataType type,
      int peer,
      Window window,
      long offset,
      DeviceStream stream) {
    state.oneSided().put(source, count, type, peer, window.registered(), offset, stream);
  }

  /**
   * Signals a rank: after all that this rank has put to it before in the same stream.
   *
   * @throws InvalidUsageException before the first window is registered
   */
  public void signal(int peer, DeviceStream stream) {
    state.oneSided().signal(peer, stream);
  }

  /**
   * Lets a stream wait until ranks have signalled this one. Each signal is waited for once.
   *
   * @param signals how many signals of which ranks
   * @throws InvalidArgumentException for a peer that is no rank, or fewer than 1 signal
   * @throws InvalidUsageException before the first window is registered
   */
  public void waitSignal(Map<Integer, Integer> signals, DeviceStream stream) {
    state.oneSided().await(signals, stream);
  }

  /**
   * What the planner decides for an operation of a size, as a table to read: every algorithm and
   * protocol with its predicted time, the choice, and the reason.
   *
   * @param operation a name as in nccl-tests, such as "all_reduce" or "alltoall"
   * @param count as in the operation's call
   * @throws InvalidArgumentException for an operation that does not exist
   */
  public String explain(String operation, long count, DataType type) {
    return queue.planner().explain(func(operation), count, type);
  }

  /**
   * The algorithm and the protocol that an operation of a size will take, such as "Ring" and "LL".
   *
   * @param operation a name as in nccl-tests
   * @param count as in the operation's call
   * @throws InvalidArgumentException for an operation that does not exist
   */
  public Decision decision(String operation, long count, DataType type) {
    String[] words = queue.planner().choice(func(operation), count, type).split(" ");
    return new Decision(words[0], words[1]);
  }

  private static Func func(String operation) {
    return Stream.of(Func.values())
        .filter(func -> func.label().equals(operation))
        .findFirst()
        .orElseThrow(
            () ->
                new InvalidArgumentException(
                    "there is no operation '" + operation + "'",
                    "use one of " + Stream.of(Func.values()).map(Func::label).toList()));
  }

  /**
   * The ranks of the same color as a communicator of their own, ordered by key and then by their
   * rank here. Every rank calls it, in the same order as operations. With the default configuration
   * the new communicator uses this one's connections: it costs no memory, and its operations and
   * this one's are called in the same order on all ranks; see {@link
   * CommunicatorConfig#withSplitShare}.
   *
   * @param color 0 or more, or {@link #NO_COLOR}
   * @return the new communicator; empty for {@link #NO_COLOR}
   * @throws InvalidArgumentException for another negative color
   */
  public Optional<Communicator> split(int color, int key) {
    return split(color, key, CommunicatorConfig.defaults());
  }

  /**
   * As {@link #split(int, int)}, with settings over this communicator's.
   *
   * @param changes name and settings of the new communicator
   */
  public Optional<Communicator> split(int color, int key, CommunicatorConfig changes) {
    return new Offspring(state)
        .split(color, key, how(changes, changes.splitShare()))
        .map(made -> new Communicator(made, changes));
  }

  /** As {@link #split(int, int, CommunicatorConfig)}, without waiting. */
  public CompletableFuture<Optional<Communicator>> splitAsync(
      int color, int key, CommunicatorConfig changes) {
    return Background.call("nccl4j-split-" + rank(), () -> split(color, key, changes));
  }

  /** What happens to operations that run while a communicator is shrunk. */
  public enum ShrinkMode {
    /** They are waited for. The communicator must not have failed. */
    WAIT,
    /** They are ended with an error. For going on after a failure. */
    ABORT
  }

  /**
   * A communicator without some ranks. Called by the ranks that stay, with the same excluded ones;
   * the others need not be alive. This communicator is then closed by those who have it.
   *
   * @param excluded ranks of this communicator; not this one
   * @throws TimeoutException naming those that did not come
   */
  public Communicator shrink(Set<Integer> excluded, ShrinkMode mode) {
    return shrink(excluded, mode, CommunicatorConfig.defaults());
  }

  /** As {@link #shrink(Set, ShrinkMode)}, with settings over this communicator's. */
  public Communicator shrink(Set<Integer> excluded, ShrinkMode mode, CommunicatorConfig changes) {
    boolean abort = mode == ShrinkMode.ABORT;
    return new Communicator(
        new Offspring(state).shrink(excluded, abort, how(changes, changes.shrinkShare())), changes);
  }

  /**
   * A communicator of these ranks, with the same numbers, and of new ones. The new ones join by
   * {@link #initRank(int, UniqueId, int, Device, CommunicatorConfig)} with numbers from {@link
   * #nRanks()} on.
   *
   * @param nRanks of the new communicator
   * @param id the same for all its ranks, made by one of them
   */
  public Communicator grow(int nRanks, UniqueId id, CommunicatorConfig changes) {
    if (nRanks <= nRanks()) {
      throw new InvalidArgumentException(
          "communicator %s of %d ranks is grown to %d".formatted(name(), nRanks(), nRanks),
          "pass the number of ranks after growing");
    }
    return initRank(nRanks, id, rank(), device(), changes);
  }

  private static Offspring.How how(CommunicatorConfig changes, boolean share) {
    return new Offspring.How(changes.name(), changes.settings(), share);
  }

  /**
   * The same communicator, whose operations called by way of the result are done in another way.
   * Every rank uses the same options for the same operation. Keep the result: it plans its
   * operations once.
   *
   * @throws InvalidArgumentException for names that do not exist
   */
  public Communicator withOptions(CallOptions options) {
    return new Communicator(state, state.queue(options.settings()), config);
  }

  /** Bytes of this rank's device memory that the communicator holds, by what they are for. */
  public Map<String, Long> memory() {
    return state.memory();
  }

  /** The configuration that it was made with. */
  public CommunicatorConfig config() {
    return config;
  }

  /** The first failure of this communicator, on this rank or another, if there was one. */
  public Optional<NcclException> asyncError() {
    return Optional.ofNullable(state.failure());
  }

  /**
   * Ends all operations of this communicator on this rank with an error, and tells the other ranks.
   * Neither waits nor frees: close does.
   */
  public void abort() {
    state.abort();
  }

  /**
   * Ends all operations of this communicator on all ranks with an error, which says that it was
   * revoked. For a rank that has seen something wrong, so that all come to {@link #shrink}.
   */
  public void revoke() {
    state.revoke();
  }

  /**
   * Refuses further operations on this rank.
   *
   * @return done when those that were called have ended; with the failure, if there was one
   */
  public CompletableFuture<Void> finish() {
    state.finish();
    return Background.call(
        "nccl4j-finish-" + rank(),
        () -> {
          state.awaitIdle(state.operationDeadline().plusSeconds(1));
          if (state.failure() != null) {
            throw state.failure().again();
          }
          return null;
        });
  }

  /**
   * Waits for this rank's operations, at most for their deadline, and frees what the communicator
   * holds. Does not wait for other ranks. Calling it again does nothing.
   */
  @Override
  public void close() {
    close(state.operationDeadline());
  }

  /**
   * As {@link #close()}, but waits for operations no longer than a while; then it aborts them.
   *
   * @param patience how long; may be zero
   */
  public void close(Duration patience) {
    state.close(patience);
  }
}
