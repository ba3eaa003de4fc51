package org.nccl4j.it.abi;

import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.function.Function;
import org.nccl4j.api.Communicator;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.support.CloseAll;
import org.nccl4j.operation.Operation;

/** An ncclComm_t: one rank's communicator, perhaps still being created. Any thread. */
final class RankHandle {
  /** Time that an abort waits for operations that are about to end. */
  private static final Duration ABORT_PATIENCE = Duration.ofMillis(10);

  private static final int KNOWN_WAITS = 16;

  static final Handles<RankHandle> ALL = new Handles<>(1);

  private final long handle;
  private final Place place;
  private final Config config;

  /** Set when it is known: a split's ranks are not, before it ends. */
  private volatile int rank;

  private volatile int nRanks;
  private volatile Communicator made;
  private volatile DeviceStream hostStream;

  /** The creation: cancelling it interrupts the thread that waits for the other ranks. */
  private volatile CompletableFuture<?> creation;

  private volatile CompletableFuture<?> making;

  /**
   * Creations of children and registrations of windows for which the program does not wait, by
   * their ends.
   */
  private final Map<CompletableFuture<?>, CompletableFuture<?>> underWay =
      new ConcurrentHashMap<>();

  /** The error of the last of them; null if it has none. */
  private volatile NcclException lateFailure;

  /** True while windows are registered for which the program does not wait. */
  private volatile boolean registers;

  /** Runs {@link #register}: the same object at each call, by which a group knows the rank. */
  private final Consumer<Runnable> background = this::register;

  /** The descriptors of the last waits. */
  private volatile AwaitedPairs[] waits = {};

  private final AtomicReference<CompletableFuture<Void>> finishing = new AtomicReference<>();
  private final AtomicBoolean revoked = new AtomicBoolean();

  /** Completes when the operations have ended that a revocation ends; null without one. */
  private volatile CompletableFuture<Void> quiescence;

  private RankHandle(long handle, Place place, Config config) {
    this.handle = handle;
    this.place = place;
    this.config = config;
  }

  /** A communicator's handle, in the table of all; its creation may go on. */
  static RankHandle of(Place place, Config config, CompletableFuture<Communicator> creation) {
    return of(place, config, creation, Function.identity());
  }

  /**
   * Adds a communicator's handle as {@link #of(Place, Config, CompletableFuture)} does.
   *
   * @param creation what a call of the API gave: cancelling a future that depends on it would not
   *     end the call
   * @param made finds the communicator in its result
   */
  static <T> RankHandle of(
      Place place, Config config, CompletableFuture<T> creation, Function<T, Communicator> made) {
    RankHandle added = ALL.add(handle -> new RankHandle(handle, place, config));
    added.creation = creation;
    added.making = creation.thenAccept(result -> added.begin(made.apply(result)));
    return added;
  }

  /** A handle of a communicator that no program knows; its caller forgets it. */
  static RankHandle warm(Communicator communicator) {
    CompletableFuture<Communicator> done = CompletableFuture.completedFuture(communicator);
    Config config = new Config(/* blocking= */ true, communicator.config());
    Place place = Place.of(communicator.device());
    RankHandle added = ALL.add(handle -> new RankHandle(handle, place, config));
    added.creation = done;
    added.making = done;
    added.complete(communicator);
    return added;
  }

  /** If the handle cannot be used, neither can the communicator, of which nobody else knows. */
  private void begin(Communicator communicator) {
    try {
      CallWarmUp.prepare(communicator);
      complete(communicator);
    } catch (Throwable e) {
      communicator.abort();
      communicator.close(ABORT_PATIENCE);
      throw e;
    }
  }

  private void complete(Communicator communicator) {
    rank = communicator.rank();
    nRanks = communicator.nRanks();
    hostStream = place.isHost() ? place.device().createStream() : null;
    made = communicator;
  }

  /** The communicator's handle of a C program. */
  @HotPath
  static RankHandle find(long handle) {
    RankHandle found = ALL.find(handle);
    if (found == null) {
      throw Wrong.communicator(handle);
    }
    return found;
  }

  long handle() {
    return handle;
  }

  Place place() {
    return place;
  }

  Config config() {
    return config;
  }

  /** The creation itself: cancelling it ends it. */
  CompletableFuture<?> creation() {
    return creation;
  }

  /** Ends when the creation has ended. */
  CompletableFuture<?> making() {
    return making;
  }

  /**
   * Returns the communicator; throws if its creation goes on or failed, or while it registers
   * windows for which the program does not wait.
   */
  @HotPath
  Communicator communicator() {
    Communicator found = made;
    if (found == null || registers) {
      throw notReady();
    }
    return found;
  }

  private RuntimeException notReady() {
    if (made != null) {
      return Wrong.argument(
          "communicator %s is used while it registers a window".formatted(made.name()),
          "call ncclCommGetAsyncError until it no longer gives ncclInProgress");
    }
    if (making.isCompletedExceptionally()) {
      return failure().map(NcclException::again).orElseThrow();
    }
    return Wrong.argument(
        "a communicator is used while it is being created",
        "call ncclCommGetAsyncError until it no longer gives ncclInProgress");
  }

  /** Is in progress until a child that does not block is there: programs ask the parent. */
  void expect(RankHandle child) {
    expect(child.creation, child.making, child.config);
  }

  /** Likewise for a split of which this rank gets no child. */
  void expect(CompletableFuture<?> creation, Config config) {
    expect(creation, creation, config);
  }

  private void expect(CompletableFuture<?> creation, CompletableFuture<?> end, Config config) {
    if (config.blocking()) {
      return;
    }
    lateFailure = null;
    underWay.put(end, creation);
    end.whenComplete(
        (nothing, error) -> {
          if (error != null && Results.cause(error) instanceof NcclException ours) {
            lateFailure = ours;
          }
          underWay.remove(end);
        });
  }

  /**
   * Registers a window, for which the program does not wait: now, or at the end of its group.
   *
   * @param registration waits for the other ranks
   */
  void registerLater(Runnable registration) {
    OpenGroup group = OpenGroup.mine();
    if (group.isOpen()) {
      group.register(background, registration);
    } else {
      register(registration);
    }
  }

  /**
   * Registers windows on a thread of its own. Until all ranks have, the communicator is in progress
   * and takes no calls but ncclCommAbort and ncclCommRevoke, which end the registration.
   */
  private void register(Runnable registrations) {
    CompletableFuture<Void> end = new CompletableFuture<>();
    registers = true;
    expect(end, end, config);
    try {
      OpenGroup.MEETING.execute(
          () -> {
            NcclException error = failureOf(registrations);
            registers = false;
            if (error == null || revoked.get()) {
              end.complete(null);
            } else {
              end.completeExceptionally(error);
            }
          });
    } catch (OutOfMemoryError e) {
      registers = false;
      end.complete(null); // the call's own error says it
      throw new SystemErrorException(
          "no thread can be started for the registration of a window", "raise ulimit -u", e);
    }
  }

  private static NcclException failureOf(Runnable registrations) {
    try {
      registrations.run();
      return null;
    } catch (NcclException e) {
      return e;
    } catch (RuntimeException | Error e) {
      return new InternalErrorException(
          "a registration of a window failed with " + e, "report this", e);
    }
  }

  /**
   * Returns the first error of the creation, of an operation, or of the last call that the program
   * did not wait for: a child's creation or a window's registration. As in NCCL, a communicator
   * that the program has revoked has no error of an operation.
   */
  Optional<NcclException> failure() {
    Communicator found = made;
    if (found != null) {
      Optional<NcclException> own = revoked.get() ? Optional.empty() : found.asyncError();
      return own.or(() -> Optional.ofNullable(lateFailure));
    }
    if (!making.isCompletedExceptionally()) {
      return Optional.empty();
    }
    try {
      making.join();
      return Optional.empty();
    } catch (RuntimeException e) {
      return Results.known(e)
          .or(
              () ->
                  Optional.of(
                      Wrong.usage("a communicator's creation ended with " + e, "create it again")));
    }
  }

  /**
   * True while the creation, that of a child, a window's registration, or the end that
   * ncclCommFinalize or ncclCommRevoke began, goes on.
   */
  boolean isInProgress() {
    return !making.isDone()
        || !underWay.isEmpty()
        || isInProgress(finishing.get())
        || isInProgress(quiescence);
  }

  private static boolean isInProgress(CompletableFuture<Void> end) {
    return end != null && !end.isDone();
  }

  /** Launches an operation of a C program, or keeps it for the end of the thread's group. */
  @HotPath
  void launch(long shape, long send, long recv, long count, long stream) {
    Communicator to = communicator();
    Operation operation = CallShape.operation(shape);
    boolean atRoot = CallShape.root(shape) == rank;
    DeviceMemory from = buffer(shape, send, count, operation.sendParts(nRanks, atRoot));
    DeviceMemory into = buffer(shape, recv, count, operation.recvParts(nRanks, atRoot));
    DeviceStream in = stream(stream);
    call(to, shape, from, into, count, in);
    finish(in);
  }

  /** Launches an operation that reduces with an operator of {@link Operators}. */
  void launch(
      ReductionOperator operator, long shape, long send, long recv, long count, long stream) {
    Communicator to = communicator();
    Operation operation = CallShape.operation(shape);
    DataType type = CallShape.type(shape);
    int root = CallShape.root(shape);
    DeviceMemory from = buffer(shape, send, count, operation.sendParts(nRanks, root == rank));
    DeviceMemory into = buffer(shape, recv, count, operation.recvParts(nRanks, root == rank));
    DeviceStream in = stream(stream);
    switch (operation) {
      case ALL_REDUCE -> to.allReduce(from, into, count, type, operator, in);
      case REDUCE_SCATTER -> to.reduceScatter(from, into, count, type, operator, in);
      case REDUCE -> to.reduce(from, into, count, type, operator, root, in);
      default -> throw unknown(operation);
    }
    finish(in);
  }

  @HotPath
  private static void call(
      Communicator to,
      long shape,
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DeviceStream in) {
    DataType type = CallShape.type(shape);
    RedOp op = CallShape.op(shape);
    int root = CallShape.root(shape);
    switch (CallShape.operation(shape)) {
      case ALL_REDUCE -> to.allReduce(send, recv, count, type, op, in);
      case ALL_GATHER -> to.allGather(send, recv, count, type, in);
      case REDUCE_SCATTER -> to.reduceScatter(send, recv, count, type, op, in);
      case BROADCAST -> to.broadcast(send, recv, count, type, root, in);
      case REDUCE -> to.reduce(send, recv, count, type, op, root, in);
      case ALL_TO_ALL -> to.allToAll(send, recv, count, type, in);
      case SCATTER -> to.scatter(send, recv, count, type, root, in);
      case GATHER -> to.gather(send, recv, count, type, root, in);
      case SEND -> to.send(send, count, type, root, in);
      case RECV -> to.recv(recv, count, type, root, in);
      default -> throw unknown(CallShape.operation(shape));
    }
  }

  private static RuntimeException unknown(Operation operation) {
    return Wrong.argument("%s is launched as a collective".formatted(operation), "report this");
  }

  /** Wraps a buffer; null where the operation ignores it, or where none is passed. */
  @HotPath
  private DeviceMemory buffer(long shape, long address, long count, int parts) {
    if (parts == 0 || address == 0 || count == 0) {
      return null;
    }
    return place.memory().of(address, bytes(count, (long) parts * CallShape.type(shape).bytes()));
  }

  /** Bytes of a size_t's units; refuses what no memory has. */
  @HotPath
  static long bytes(long count, long unit) {
    if (count < 0 || Math.multiplyHigh(count, unit) != 0 || count * unit < 0) {
      throw tooMany(count);
    }
    return count * unit;
  }

  private static RuntimeException tooMany(long count) {
    return Wrong.argument(
        "the count is " + Long.toUnsignedString(count), "pass a count that memory has room for");
  }

  /** The stream of a call: on the host the communicator's own. */
  @HotPath
  DeviceStream stream(long stream) {
    return place.isHost() ? hostStream : place.stream(stream);
  }

  /** The stream of a call on a communicator whose creation has ended. */
  @HotPath
  DeviceStream streamOfMade(long stream) {
    communicator();
    return stream(stream);
  }

  /**
   * The descriptors of a wait, as an earlier one had them if it is known.
   *
   * @param address of the number and the peer of each, which are ints
   */
  @HotPath
  AwaitedPairs awaited(long address, int n) {
    for (AwaitedPairs each : waits) {
      if (each.areAt(address, n)) {
        return each;
      }
    }
    return readWait(address, n);
  }

  private synchronized AwaitedPairs readWait(long address, int n) {
    AwaitedPairs read = AwaitedPairs.read(address, n);
    AwaitedPairs[] more = Arrays.copyOf(waits, Math.min(KNOWN_WAITS, waits.length + 1));
    System.arraycopy(waits, 0, more, 1, more.length - 1);
    more[0] = read;
    waits = more;
    return read;
  }

  /** On the host, a call has ended when it returns, or when its group ends. */
  @HotPath
  void finish(DeviceStream in) {
    if (!place.isHost()) {
      return;
    }
    OpenGroup group = OpenGroup.mine();
    if (group.isOpen()) {
      group.add(in);
    } else {
      in.synchronize();
    }
  }

  /**
   * ncclCommRevoke: ends all operations of all ranks.
   *
   * @return completes when this rank's have ended
   */
  CompletableFuture<Void> revoke() {
    Communicator ended = registers ? made : communicator();
    if (finishing.get() != null) {
      throw Wrong.argument(
          "communicator %s is revoked after ncclCommFinalize".formatted(ended.name()),
          "call ncclCommDestroy or ncclCommAbort");
    }
    if (!revoked.compareAndSet(false, true)) {
      throw Wrong.argument(
          "communicator %s is revoked twice".formatted(ended.name()),
          "call ncclCommRevoke once, then ncclCommSplit, ncclCommShrink, ncclCommDestroy or"
              + " ncclCommAbort");
    }
    CompletableFuture<Void> end = new CompletableFuture<>();
    quiescence = end;
    ended.revoke();
    ended.finish().whenComplete((nothing, revocation) -> end.complete(null));
    return end;
  }

  /** ncclCommFinalize: begins the end of the operations. */
  CompletableFuture<Void> finish() {
    Communicator ended = communicator();
    if (revoked.get()) {
      throw Wrong.argument(
          "communicator %s is finalized after ncclCommRevoke".formatted(ended.name()),
          "call ncclCommDestroy or ncclCommAbort");
    }
    CompletableFuture<Void> mine = new CompletableFuture<>();
    if (!finishing.compareAndSet(null, mine)) {
      throw Wrong.argument(
          "communicator %s is finalized twice".formatted(ended.name()),
          "call ncclCommFinalize once, then ncclCommDestroy");
    }
    ended
        .finish()
        .whenComplete(
            (nothing, error) -> {
              if (error == null) {
                mine.complete(null);
              } else {
                mine.completeExceptionally(error);
              }
            });
    return mine;
  }

  /**
   * ncclCommDestroy and ncclCommAbort: frees it; the handle is no longer one. Programs end also
   * with an abort, so without operations it is no failure that other ranks hear of. An abort ends
   * the creations of children and registrations of windows too.
   */
  void close(boolean abort) {
    if (registers && !abort) {
      throw notReady();
    }
    if (ALL.remove(handle) == null) {
      throw Wrong.communicator(handle);
    }
    Operators.forget(this);
    WindowHandle.forget(this);
    if (abort) {
      underWay.values().forEach(each -> each.cancel(true));
    }
    if (creation.cancel(true) || making.isCompletedExceptionally()) {
      return;
    }
    making.join();
    Communicator closed = made;
    CloseAll all = new CloseAll(); // a device that is lost fails the first step
    if (abort) {
      all.take(() -> closed.close(ABORT_PATIENCE));
      all.take(() -> endWaits(closed));
    } else {
      all.take(closed::close);
    }
    DeviceStream own = hostStream;
    if (own != null) {
      all.take(own::close);
    }
    all.end();
  }

  /**
   * Ends calls of ncclCommFinalize and ncclCommRevoke that still wait after an abort: for an
   * operation that its stream has not come to, behind a kernel of the program's that does not end.
   */
  private void endWaits(Communicator aborted) {
    for (CompletableFuture<Void> end : Arrays.asList(finishing.get(), quiescence)) {
      if (end != null && !end.isDone()) {
        end.completeExceptionally(
            Wrong.usage(
                "communicator %s was aborted while its end was awaited".formatted(aborted.name()),
                "call ncclCommAbort after ncclCommFinalize or ncclCommRevoke has returned, if its"
                    + " result matters"));
      }
    }
  }

  /** The process ends: the other ranks shall not take this one for dead. */
  void depart() {
    Communicator closed = made;
    if (closed != null) {
      closed.close(Duration.ZERO);
    }
  }
}
