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
import org.nccl4j.api.group.Groups;
import org.nccl4j.api.group.RankQueue;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.api.init.Offspring;
import org.nccl4j.device.Device;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.Given;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.TimeoutException;

/**
 * A group of ranks, each with a device, that communicate; this object is one rank's place in it.
 *
 * <p>Operations are launched into a stream and run there; the call itself does not wait for other
 * ranks. Every rank makes the same collective calls in the same order with the same count, type,
 * operator and root. What the ranks call is compared with the data as they come: ranks that call
 * different things get an error that names both calls, NCCL4J-CALLS-DIFFER. On GPUs the data of
 * LL128, of NVLS through slots and of copy engines do not say it, and may be mixed up. The setting
 * NCCL_CHECK_MODE=DEBUG_GLOBAL compares every collective before it begins, with an exchange a call.
 * Buffers are memories of this rank's device, as large as the operation needs (a larger one is used
 * from its start). The operations themselves are inherited: those that every rank concerned calls
 * from {@link Operations}, those of one rank alone from {@link OneSided}; what is known of a
 * communicator is asked by {@link Inquiries}.
 *
 * <p>What makes communicators waits for other ranks, and has a twin, named so by its end {@code
 * Async}, that does not: its future ends as the call would, with the same deadlines and errors. In
 * a {@link Group} the call itself is refused, for the thread may drive the ranks that it waits for.
 * To cancel the future ends the attempt on this rank with an error that the other ranks hear of,
 * and a communicator that nobody would get is closed.
 *
 * <p>Any thread may call any method; operations take effect in the order of the calls. All ranks
 * need the same order, so several threads of a rank have to agree on one that every rank has:
 * otherwise their calls differ, or, where they are equal, one thread gets the data of another
 * without an error. Threads that cannot agree have a communicator each, from a split with
 * connections of its own ({@link CommunicatorConfig#withSplitShare withSplitShare(false)}).
 *
 * <p>Errors of an operation that has begun come out of its stream's synchronize and {@link
 * #asyncError()}; the communicator is then of no further use but to be closed.
 *
 * <p>Every operation throws, before anything is launched: {@link InvalidArgumentException} for a
 * null, too small or foreign buffer, a negative count, or a root or peer out of range; {@link
 * InvalidUsageException} after {@link #close()} or for closed memory; and the cause itself after a
 * failure.
 */
public final class Communicator extends Inquiries implements AutoCloseable {
  /** The color of a rank that will be in none of the communicators that a split makes. */
  public static final int NO_COLOR = Offspring.NO_COLOR;

  /** What is made of this communicator without waiting. Its own, and shared by its options. */
  private final Background background;

  private Communicator(CommunicatorState state, CommunicatorConfig config) {
    this(state, state.queue(), config, new Background());
    Unclosed.watch(background, state);
  }

  private Communicator(
      CommunicatorState state, RankQueue queue, CommunicatorConfig config, Background background) {
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
    return initRank(nRanks, Collections.singletonList(id), rank, device, config);
  }

  /**
   * As {@link #initRank(int, UniqueId, int, Device, CommunicatorConfig)}, for a large job, by
   * several bootstrap roots: one for each id, which brings a block of the ranks together. NCCL's
   * ncclCommInitRankScalable.
   *
   * @param ids the same in the same order for all, made by different processes; at most nRanks. One
   *     for some hundreds of ranks is enough
   */
  public static Communicator initRank(
      int nRanks, List<UniqueId> ids, int rank, Device device, CommunicatorConfig config) {
    Groups.refuseInGroup("initRank", "initRankAsync");
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

  /** As {@link #initAll(List, CommunicatorConfig)}, without waiting. */
  public static CompletableFuture<List<Communicator>> initAllAsync(
      List<Device> devices, CommunicatorConfig config) {
    List<Device> given = devices == null ? null : new ArrayList<>(devices);
    return Background.call(
        "nccl4j-init", () -> initAll(given, config), made -> made.forEach(Communicator::drop));
  }

  /** Nobody has it: the caller has cancelled. */
  private void drop() {
    close(Duration.ZERO);
  }

  /**
   * The ranks of the same color as a communicator of their own, ordered by key and then by their
   * rank here. Every rank calls it, in the same order as operations. The new communicator uses this
   * one's connections: it takes no device memory, and its operations and this one's are one order,
   * which every rank calls them in, whatever the threads and streams. For communicators that work
   * at once, or are called in different order, see {@link CommunicatorConfig#withSplitShare}.
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
    Given.notNull(changes, "configuration");
    Groups.refuseInGroup("split", "splitAsync");
    return new Offspring(state)
        .split(color, key, how(changes, changes.splitShare()))
        .map(made -> new Communicator(made, changes));
  }

  /**
   * As {@link #split(int, int, CommunicatorConfig)}, without waiting. What is made so of one
   * communicator is made in the order of the calls; other collective calls on it that wait, such as
   * split itself, come after the future's end.
   */
  public CompletableFuture<Optional<Communicator>> splitAsync(
      int color, int key, CommunicatorConfig changes) {
    return background.inOrder(
        "nccl4j-split-" + rank(),
        () -> split(color, key, changes),
        made -> made.ifPresent(Communicator::drop));
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
    Given.notNull(excluded, "set of excluded ranks");
    Given.notNull(mode, "mode of shrinking");
    Given.notNull(changes, "configuration");
    Groups.refuseInGroup("shrink", "shrinkAsync");
    boolean abort = mode == ShrinkMode.ABORT;
    return new Communicator(
        new Offspring(state)
            .shrink(excluded, abort, how(changes, Optional.of(changes.shrinkShare()))),
        changes);
  }

  /**
   * As {@link #shrink(Set, ShrinkMode, CommunicatorConfig)}, without waiting. It follows what is
   * being made of this communicator ({@link #splitAsync}); with {@link ShrinkMode#ABORT} it begins
   * at once instead, for what goes before may never end.
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
   * A communicator of these ranks, with the same numbers, and of new ones. The new ones join by
   * {@link #initRank(int, UniqueId, int, Device, CommunicatorConfig)} with numbers from {@link
   * #nRanks()} on.
   *
   * @param nRanks of the new communicator
   * @param id the same for all its ranks, made by one of them
   */
  public Communicator grow(int nRanks, UniqueId id, CommunicatorConfig changes) {
    Groups.refuseInGroup("grow", "growAsync");
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

  private static Offspring.How how(CommunicatorConfig changes, Optional<Boolean> share) {
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
    Given.notNull(options, "options");
    return new Communicator(state, state.queue(options.settings()), config(), background);
  }

  /**
   * Gives back the device memory of this communicator, until {@link #resume}: connections, kernels'
   * tables, NVLS buffers and the space of windows. Waits for this rank's operations. Collective:
   * all ranks call it, and it is refused on all where one cannot.
   *
   * <p>Operations, splits and registrations are refused meanwhile. Memory of the user's is not
   * touched; plans and graphs that were captured on the communicator are of no further use.
   *
   * @throws InvalidUsageException naming the rank whose communicator is a split's, is used by
   *     splits, has windows, device communicators, or operations that do not end; then nothing has
   *     changed
   */
  public void suspend() {
    Groups.refuseInGroup("suspend");
    state.suspend();
  }

  /**
   * Makes what {@link #suspend} gave back anew, and lets operations go on. Collective. Returns
   * before any rank's next operation can be lost; takes about as long as making a communicator.
   *
   * @throws InvalidUsageException if it is not suspended
   * @throws NcclException as when a communicator is made; it is then of no further use but to be
   *     closed
   */
  public void resume() {
    Groups.refuseInGroup("resume");
    state.resume();
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
   * Waits for this rank's operations, at most for their deadline, and frees what the communicator
   * holds. Does not wait for other ranks. Those that have called operations which this rank has not
   * called, or do so later, fail at once; but those that wait for a signal, or have this
   * communicator's operations in CUDA graphs, wait for their deadline. Calling it again does
   * nothing.
   */
  @Override
  public void close() {
    close(state.operationDeadline());
  }

  /**
   * As {@link #close()}, but waits for operations no longer than a while; then it aborts them.
   * Memory that one of them still uses 5 s later is never freed, and the log says so.
   *
   * @param patience how long; may be zero
   */
  public void close(Duration patience) {
    Given.notNull(patience, "time that close may take");
    state.close(patience);
  }

  CommunicatorState state() {
    return state;
  }
}
