package org.nccl4j.api;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import org.nccl4j.api.group.GroupScope;
import org.nccl4j.api.group.OperationDispatcher;
import org.nccl4j.api.init.ChildCommunicators;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.Device;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.TimeoutException;

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
 * <p>{@link Operations} has the operations that all participating ranks call, {@link OneSided} the
 * operations of one rank alone, {@link Inquiries} the queries.
 *
 * <p>Methods that create communicators wait for other ranks. Each has an asynchronous version whose
 * name ends in {@code Async}. Its future completes with the same result, deadlines and errors. In a
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
public final class Communicator extends Inquiries implements AutoCloseable {
  /** The color of a rank that joins none of a split's communicators. */
  public static final int NO_COLOR = ChildCommunicators.NO_COLOR;

  /** Asynchronous creations from this communicator; shared by its {@link #withOptions} views. */
  private final Background background;

  private Communicator(CommunicatorState state, CommunicatorConfig config) {
    this(state, state.queue(), config, new Background());
    Unclosed.watch(background, state);
  }

  private Communicator(
      CommunicatorState state,
      OperationDispatcher queue,
      CommunicatorConfig config,
      Background background) {
    super(state, queue, config);
    this.background = background;
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
   * Joins a communicator. Returns when all its ranks have joined. Ranks may be in any processes and
   * threads; several ranks of one process need one thread each for this call.
   *
   * @param nRanks the number of ranks, the same on all ranks
   * @param id the same on all ranks; valid for one communicator
   * @param rank this rank, 0 to nRanks - 1, unique
   * @param device the device of this rank's buffers
   * @param config deadlines and settings
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
   * As {@link #initRank(int, UniqueId, int, Device, CommunicatorConfig)}, for a large job with
   * several bootstrap roots. Each id has a root, which collects a block of the ranks. Corresponds
   * to ncclCommInitRankScalable.
   *
   * @param ids the same in the same order on all ranks, created by different processes; at most
   *     nRanks. One for some hundreds of ranks is enough
   */
  public static Communicator initRank(
      int nRanks, List<UniqueId> ids, int rank, Device device, CommunicatorConfig config) {
    GroupScope.refuseInGroup("initRank", "initRankAsync");
    if (nRanks < 1 || rank < 0 || rank >= nRanks) {
      throw new InvalidArgumentException(
          ErrorId.RANK,
          "rank %d of %d ranks".formatted(rank, nRanks),
          "pass a rank from 0 to nRanks - 1");
    }
    return new Communicator(Joining.join(nRanks, ids, rank, device, config), config);
  }

  /** As {@link #initRank(int, UniqueId, int, Device, CommunicatorConfig)}, without waiting. */
  public static CompletableFuture<Communicator> initRankAsync(
      int nRanks, UniqueId id, int rank, Device device, CommunicatorConfig config) {
    return initRankAsync(nRanks, Collections.singletonList(id), rank, device, config);
  }

  /** As {@link #initRank(int, List, int, Device, CommunicatorConfig)}, without waiting. */
  public static CompletableFuture<Communicator> initRankAsync(
      int nRanks, List<UniqueId> ids, int rank, Device device, CommunicatorConfig config) {
    List<UniqueId> given = ids == null ? null : new ArrayList<>(ids);
    return Background.call(
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
    return Joining.joinAll(devices, config).stream()
        .map(state -> new Communicator(state, config))
        .toList();
  }

  /** As {@link #initAll(List, CommunicatorConfig)}, without waiting. */
  public static CompletableFuture<List<Communicator>> initAllAsync(
      List<Device> devices, CommunicatorConfig config) {
    List<Device> given = devices == null ? null : new ArrayList<>(devices);
    return Background.call(
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

  /**
   * As {@link #split(int, int)}, with settings that override this communicator's.
   *
   * @param changes name and settings of the new communicator
   */
  public Optional<Communicator> split(int color, int key, CommunicatorConfig changes) {
    Arguments.notNull(changes, "configuration");
    GroupScope.refuseInGroup("split", "splitAsync");
    return new ChildCommunicators(state)
        .split(color, key, how(changes, changes.splitShare()))
        .map(made -> new Communicator(made, changes));
  }

  /**
   * As {@link #split(int, int, CommunicatorConfig)}, without waiting. Asynchronous creations from
   * one communicator happen in the order of the calls. Other collective calls on it that wait, such
   * as split itself, must follow the future's end.
   */
  public CompletableFuture<Optional<Communicator>> splitAsync(
      int color, int key, CommunicatorConfig changes) {
    return background.inOrder(
        "nccl4j-split-" + rank(),
        () -> split(color, key, changes),
        made -> made.ifPresent(Communicator::drop));
  }

  /** The treatment of running operations when a communicator is shrunk. */
  public enum ShrinkMode {
    /** Waits for them. The communicator must not have failed. */
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

  /** As {@link #shrink(Set, ShrinkMode)}, with settings that override this communicator's. */
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
   * As {@link #shrink(Set, ShrinkMode, CommunicatorConfig)}, without waiting. It follows earlier
   * asynchronous creations from this communicator ({@link #splitAsync}). With {@link
   * ShrinkMode#ABORT} it begins at once, because earlier creations may never end.
   */
  public CompletableFuture<Communicator> shrinkAsync(
      Set<Integer> excluded, ShrinkMode mode, CommunicatorConfig changes) {
    Set<Integer> given = excluded == null ? null : new HashSet<>(excluded);
    Callable<Communicator> body = () -> shrink(given, mode, changes);
    String thread = "nccl4j-shrink-" + rank();
    return mode == ShrinkMode.ABORT
        ? Background.call(thread, body, Communicator::drop)
        : background.inOrder(thread, body, Communicator::drop);
  }

  /**
   * Creates a communicator of these ranks, with the same numbers, and of new ranks. The new ranks
   * join with {@link #initRank(int, UniqueId, int, Device, CommunicatorConfig)} and numbers from
   * {@link #nRanks()} on.
   *
   * @param nRanks the number of ranks of the new communicator
   * @param id the same on all its ranks, created by one of them
   */
  public Communicator grow(int nRanks, UniqueId id, CommunicatorConfig changes) {
    GroupScope.refuseInGroup("grow", "growAsync");
    state.checkOpen("grow");
    if (nRanks <= nRanks()) {
      throw new InvalidArgumentException(
          ErrorId.RANK,
          "communicator %s of %d ranks is grown to %d".formatted(name(), nRanks(), nRanks),
          "pass the number of ranks after growing");
    }
    return initRank(nRanks, id, rank(), device(), changes);
  }

  /** As {@link #grow}, without waiting. */
  public CompletableFuture<Communicator> growAsync(
      int newRanks, UniqueId id, CommunicatorConfig changes) {
    return Background.call(
        "nccl4j-grow-" + rank(), () -> grow(newRanks, id, changes), Communicator::drop);
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
    return new Communicator(state, state.queue(options.settings()), config(), background);
  }

  /**
   * Frees the device memory of this communicator until {@link #resume}: connections, kernels'
   * tables, NVLS buffers and the address range of windows. Waits for this rank's operations.
   * Collective: all ranks call it. If one rank cannot suspend, the call fails on all ranks.
   *
   * <p>While suspended, operations, splits and registrations are refused. The user's memory stays.
   * Plans and graphs that were captured on the communicator become invalid.
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
   * Allocates again what {@link #suspend} freed, and allows operations. Collective. After its
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
   * rank that has detected a problem calls it, so that all ranks can call {@link #shrink}.
   */
  public void revoke() {
    state.revoke();
  }

  /**
   * Refuses further operations on this rank.
   *
   * @return completes when the operations called before have ended; exceptionally after a failure
   */
  public CompletableFuture<Void> finish() {
    state.finish();
    return Background.<Void>call(
        "nccl4j-finish-" + rank(),
        () -> {
          state.awaitIdle(state.operationDeadline().plusSeconds(1));
          if (state.failure() != null) {
            throw state.failure().again();
          }
          return null;
        },
        nothing -> {});
  }

  /**
   * Waits for this rank's operations, at most until their deadline, and frees the communicator's
   * resources. Does not wait for other ranks. Other ranks that have called operations which this
   * rank has not called, or do so later, fail at once. Ranks that wait for a signal, or have this
   * communicator's operations in CUDA graphs, wait until their deadline. Idempotent.
   */
  @Override
  public void close() {
    close(state.operationDeadline());
  }

  /**
   * As {@link #close()}, but waits for operations only for a given time, and then aborts them.
   * Memory that an operation still uses 5 s later is never freed, and the log says so.
   *
   * @param patience the time to wait; may be zero
   */
  public void close(Duration patience) {
    Arguments.notNull(patience, "time that close may take");
    state.close(patience);
  }

  CommunicatorState state() {
    return state;
  }
}
