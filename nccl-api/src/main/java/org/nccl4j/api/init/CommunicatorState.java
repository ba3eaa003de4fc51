package org.nccl4j.api.init;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.bootstrap.CallOrder;
import org.nccl4j.api.bootstrap.CheckedAllGather;
import org.nccl4j.api.group.OneSidedCalls;
import org.nccl4j.api.group.OperationDispatcher;
import org.nccl4j.api.group.QuantisedSums;
import org.nccl4j.api.init.connect.TransportRoutes;
import org.nccl4j.api.init.engine.Engine;
import org.nccl4j.api.init.engine.MemoryUsage;
import org.nccl4j.api.init.peers.HostLayout;
import org.nccl4j.api.init.peers.InitRequest;
import org.nccl4j.api.init.peers.Membership;
import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.observe.OperationHooks;
import org.nccl4j.api.observe.ProgressMonitor;
import org.nccl4j.api.observe.flight.FlightRecorder;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.observe.http.JobServer;
import org.nccl4j.api.plan.PlannedAlgorithms;
import org.nccl4j.api.proxy.ProxyThread;
import org.nccl4j.api.settings.DebugSettings;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.window.LocalRegistration;
import org.nccl4j.api.window.LsaTeam;
import org.nccl4j.api.window.RegisteredWindow;
import org.nccl4j.api.window.WindowRegistry;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.RmaSpace;
import org.nccl4j.device.support.CloseAll;
import org.nccl4j.device.support.KeptMemory;
import org.nccl4j.device.support.Patience;
import org.nccl4j.operation.Operation;

/**
 * One rank's communicator behind the user's handle: its life cycle with suspensions, what is
 * registered with it, and what runs its operations. Any thread.
 */
public final class CommunicatorState {
  /** Time that operations may take to end after an abort: a waiting kernel looks for the abort. */
  private static final Duration ABORTED = Duration.ofSeconds(5);

  private final InitRequest request;
  private final Bootstrap bootstrap;
  private final Membership members;
  private final OperationDispatcher dispatcher;

  private final OptionDispatchers others = new OptionDispatchers();
  private final QuiesceWait idleness = new QuiesceWait(this);
  private final InfoLog info;
  private volatile Running running;
  private volatile boolean suspended;
  private final AtomicInteger splits = new AtomicInteger();
  private final AtomicInteger shrinks = new AtomicInteger();
  private final AtomicInteger exchanges = new AtomicInteger();

  /** Exchanges that are not closed. */
  private final AtomicInteger openExchanges = new AtomicInteger();

  /** Ways of exchanges that were logged. */
  private final Set<String> ways = ConcurrentHashMap.newKeySet();

  private final AtomicBoolean closed = new AtomicBoolean();

  /** True when close has left the resources, which other communicators may go on using. */
  private volatile boolean left;

  /** Held by a suspension, a resumption, and what close does to the engine. */
  private final ReentrantLock lifecycle = new ReentrantLock();

  /** True if this rank has revoked it. */
  private volatile boolean revoked;

  /** The error of operations after {@link #finish}; null before. */
  private volatile NcclException finished;

  /** Serves the job's state; null if nothing does. */
  private volatile JobServer server;

  CommunicatorState(InitRequest request, Bootstrap bootstrap, Membership members, Engine engine) {
    this.request = request;
    this.bootstrap = bootstrap;
    this.members = members;
    this.info = request.info(bootstrap.rank());
    this.dispatcher = engine.dispatcher();
    bootstrap.calls().allowOperations(request.operationTimeout());
    engine.tellOperations();
    this.running = run(engine);
  }

  /** Resources that exist from creation to the end, or until and after a suspension. */
  private record Running(Engine engine, ProgressMonitor observer, OneSidedCalls oneSided) {}

  /** Closes a server together with the communicator. */
  public void serveBy(JobServer its) {
    server = its;
  }

  private Running run(Engine engine) {
    FlightRecorder.Rank flight =
        new FlightRecorder.Rank(
            request.name(),
            members.id(),
            bootstrap.rank(),
            members.peers().size(),
            Operation.keys(),
            deviceOf(request.device()));
    FlightRecorder log = FlightRecorder.open(flight);
    engine.resources().works(members.id(), true);
    engine.launcher().record(log);
    ProgressMonitor observer =
        ProgressMonitor.watch(
            log,
            flight,
            engine.kernels(),
            engine.launcher().hooks(),
            engine.resources(),
            engine.links(log),
            new ProgressMonitor.Options(
                request.device().kind() == Device.Kind.HOST,
                request.settings().get(Settings.NCCL_CHECK_MODE).equals("DEBUG_GLOBAL"),
                request.settings().get(DebugSettings.NCCL4J_FLIGHT_FILE),
                request.settings().get(DebugSettings.NCCL4J_TRACE_RATE),
                info));
    OneSidedCalls oneSided =
        new OneSidedCalls(
            request.name(),
            bootstrap.rank(),
            engine.place().windows(),
            engine.kernels(),
            engine.launcher());
    return new Running(engine, observer, oneSided);
  }

  private static String deviceOf(Device device) {
    return device.kind() == Device.Kind.HOST ? RankReport.HOST : ((CudaDevice) device).pciBusId();
  }

  /**
   * Gives back what the communicator holds of its device, together with all other ranks. Until
   * {@link #resume} it does nothing but wait and close.
   */
  public void suspend() {
    CallOrder.Turn turn = calls().enter();
    try (turn) {
      lifecycle.lock();
      try {
        called(() -> "suspend");
        checkRunning("suspend");
        new Suspension(this).suspend();
      } finally {
        lifecycle.unlock();
      }
    }
  }

  /** All ranks have agreed: observers of the engine end before the engine does. */
  void release() {
    suspended = true;
    CloseAll all = new CloseAll();
    end(running, /* idle= */ true, all);
    all.take(dispatcher::freeSteps);
    others.all().forEach(other -> all.take(other::freeSteps));
    all.end();
  }

  /** Allocates again what {@link #suspend} freed, together with all other ranks. */
  public void resume() {
    CallOrder.Turn turn = calls().enter();
    try (turn) {
      lifecycle.lock();
      try {
        resumeNow();
      } finally {
        lifecycle.unlock();
      }
    }
  }

  private void resumeNow() {
    called(() -> "resume");
    checkOpen("resume");
    if (!suspended) {
      throw new InvalidUsageException(
          ErrorId.SUSPENDED,
          "communicator %s is resumed on rank %d and is not suspended".formatted(name(), rank()),
          "call resume once after suspend, on all ranks");
    }
    NcclException failure = failure();
    if (failure != null) {
      throw failure.again();
    }
    Engine engine = new Suspension(this).resume(this::adopt);
    dispatcher.become(engine.dispatcher());
    others.become(engine);
    suspended = false;
  }

  private Engine adopt(Engine engine) {
    engine.launcher().adopt(hooks());
    running = run(engine);
    if (finished != null) { // set before finish looks for the engine
      engine.launcher().refuse(finished, Duration.ZERO);
    }
    return engine;
  }

  /** True if it is suspended now. */
  public boolean isSuspended() {
    return suspended;
  }

  /** The ranks that reach each other's memory by loads and stores; while suspended too. */
  public LsaTeam team() {
    return members.team(rank());
  }

  /** The windows of this rank. */
  public WindowRegistry windows() {
    checkRunning("an operation on windows");
    return engine().place().windows();
  }

  /** Notes of how calls were planned, for reports. */
  public PlannedAlgorithms planned() {
    return engine().place().planned();
  }

  /** Returns the one-sided operations. */
  public OneSidedCalls oneSided() {
    checkRunning("a one-sided operation");
    return running.oneSided;
  }

  /** Drops a window together with all other ranks. */
  public void deregister(RegisteredWindow window) {
    CallOrder.Turn turn = calls().enter();
    try (turn) {
      info.tell("REG", () -> "deregisters window " + window.number());
      windows().deregister(window, idleness::uses);
      ProxyThread.forgetBuffers();
    }
  }

  /** Drops a window on this rank alone. */
  public void release(RegisteredWindow window) {
    info.tell("REG", () -> "releases window " + window.number());
    windows().release(window, idleness::uses, engine().kernels().isInGraphs());
    ProxyThread.forgetBuffers();
  }

  /** Registers memory of this rank alone. */
  public LocalRegistration register(DeviceMemory memory) {
    info.tell("REG", () -> "registers " + memory + " by itself");
    checkRunning("register");
    return engine().place().windows().registrations().add(memory);
  }

  /** Ends the use of such memory, on this rank alone. */
  public void deregister(LocalRegistration registration) {
    info.tell("REG", () -> "deregisters " + registration.memory());
    checkRunning("deregister");
    Engine engine = engine();
    engine
        .place()
        .windows()
        .registrations()
        .remove(registration, idleness::uses, engine.kernels().isInGraphs());
    ProxyThread.forgetBuffers();
  }

  /** Returns the dispatcher of operations. */
  public OperationDispatcher dispatcher() {
    return dispatcher;
  }

  /** This rank. */
  public int rank() {
    return bootstrap.rank();
  }

  /** All ranks. */
  public int nRanks() {
    return bootstrap.nRanks();
  }

  /** This rank's device. */
  public Device device() {
    return request.device();
  }

  /** Returns the communicator's name for messages and logs. */
  public String name() {
    return request.name();
  }

  /** The transport to each other rank. */
  public Map<Integer, String> routes() {
    return TransportRoutes.names(engine().routes());
  }

  /** Returns each rank's route and the reason for it, as lines to read. */
  public String explainRoutes() {
    return TransportRoutes.explain(engine().routes());
  }

  /** Returns the hooks that see this rank's operations. */
  public OperationHooks hooks() {
    return engine().launcher().hooks();
  }

  /** The first failure, or null. */
  public NcclException failure() {
    return engine().resources().failure();
  }

  InitRequest request() {
    return request;
  }

  /** Returns what runs this rank's kernels. */
  public KernelCommunicator kernels() {
    checkRunning("an operation of kernels");
    return engine().kernels();
  }

  /**
   * Makes what {@link KernelCommunicator#controlRing} does; a rank that cannot is a failure of all.
   */
  public Optional<RmaSpace.KernelRing> controlRing(int signals) {
    try {
      return kernels().controlRing(signals);
    } catch (NcclException e) {
      bootstrap.tellFailure(e);
      throw e;
    }
  }

  /** Returns what launches them; a resumption makes another. */
  public Launcher launcher() {
    return engine().launcher();
  }

  /**
   * Returns all ranks' bytes, by rank, in a call that all ranks make.
   *
   * @param call its name, ASCII, of at most 127 characters
   * @throws InvalidUsageException on all ranks if one is in another call
   */
  public List<byte[]> exchange(String call, byte[] mine) {
    CallOrder.Turn turn = calls().enter();
    try (turn) {
      return CheckedAllGather.allGather(bootstrap, name(), call, mine);
    }
  }

  /** The order of this rank's calls that exchange with the other ranks. */
  public CallOrder calls() {
    return bootstrap.calls();
  }

  Bootstrap bootstrap() {
    return bootstrap;
  }

  /** The ranks by host. */
  public HostLayout hosts() {
    return HostLayout.of(members.peers());
  }

  Membership members() {
    return members;
  }

  Engine engine() {
    return running.engine;
  }

  /**
   * Counts a split and returns its number. It is the same on all ranks, whether splits succeeded or
   * failed.
   */
  int nextSplit() {
    return splits.incrementAndGet();
  }

  /** Counts a shrink and returns its number, the same on all ranks that stay. */
  int nextShrink() {
    return shrinks.incrementAndGet();
  }

  /** Counts an exchange by sends and receives, and returns its number, the same on all ranks. */
  public int nextExchange() {
    return exchanges.incrementAndGet();
  }

  /** An exchange was created: until it is closed, this rank cannot suspend. */
  public void exchangeOpened() {
    openExchanges.incrementAndGet();
  }

  /** Such an exchange was closed. */
  public void exchangeClosed() {
    openExchanges.decrementAndGet();
  }

  /** Logs the way that calls of an exchange take, if it was not logged before. */
  public void tellWay(String way) {
    if (ways.add(way)) {
      info.tell("INIT", () -> way);
    }
  }

  boolean hasExchanges() {
    return openExchanges.get() > 0;
  }

  /**
   * Returns the dispatcher of operations that are planned by settings over this communicator's own;
   * every rank uses the same settings.
   *
   * @param how the operations travel quantised; null if they do not
   */
  public OperationDispatcher dispatcher(Map<String, String> overrides, QuantisedSums.How how) {
    synchronized (others) {
      checkRunning("an operation with options"); // close looks at all that are here after it began
      return others.of(overrides, how, request.settings(), engine());
    }
  }

  /** Bytes that the communicator holds on this rank's device, by what for. */
  public Map<String, Long> memory() {
    if (closed.get()) {
      return Map.of();
    }
    List<OperationDispatcher> dispatchers = new ArrayList<>(others.all());
    dispatchers.add(dispatcher());
    return MemoryUsage.of(suspended ? null : engine(), dispatchers);
  }

  /** Ends this rank's operations with an error and tells the others; nothing at close's end. */
  public void abort() {
    called(() -> "abort");
    if (left) {
      return;
    }
    engine()
        .resources()
        .fail(
            new InvalidUsageException(
                ErrorId.ABORTED,
                "communicator %s was aborted by rank %d".formatted(name(), rank()),
                "create a communicator of the remaining ranks with shrink"));
  }

  /**
   * Ends all ranks' operations with an error, so that they can agree on a new communicator; nothing
   * at close's end.
   */
  public void revoke() {
    called(() -> "revoke");
    revoke("");
  }

  /**
   * Revokes it as {@link #revoke()} does.
   *
   * @param within the call that does so, as the end of a clause; "" for a revocation
   */
  void revoke(String within) {
    if (left) {
      return;
    }
    revoked = true;
    NcclException revocation =
        new InvalidUsageException(
            ErrorId.REVOKED,
            "communicator %s was revoked by rank %d%s".formatted(name(), rank(), within),
            "create another communicator with shrink, or close this one",
            failure()); // the reason, if there was one
    engine().resources().fail(revocation);
    // What this rank calls from now on has its own revocation as the reason, also if another rank's
    // failure or revocation was heard before.
    engine().launcher().refuse(revocation, Duration.ZERO);
  }

  /** True if this rank has revoked it, or if it failed because another has. */
  boolean isRevoked() {
    boolean found = revoked;
    for (Throwable each = failure(); each != null && !found; each = each.getCause()) {
      found = each instanceof NcclException error && error.id() == ErrorId.REVOKED;
    }
    return found;
  }

  /** Refuses further operations; nothing after close or a failure, which have. */
  public void finish() {
    if (closed.get() || failure() != null) {
      return;
    }
    called(() -> "finish");
    finished =
        new InvalidUsageException(
            ErrorId.CLOSED,
            "an operation is called on communicator %s after finish".formatted(name()),
            "call finish after the last operation");
    engine().launcher().refuse(finished, operationTimeout());
  }

  /** Tells of a call that concerns the communicator as a whole. */
  void called(Supplier<String> what) {
    info.tell("CALL", () -> "calls " + what.get());
  }

  /**
   * Registers a window together with all other ranks.
   *
   * @param forCollectives whether collectives may use it
   */
  public RegisteredWindow registerWindow(DeviceMemory memory, boolean forCollectives) {
    CallOrder.Turn turn = calls().enter();
    try (turn) {
      RegisteredWindow window = windows().register(memory, forCollectives);
      info.tell("REG", () -> "has window %d: %s".formatted(window.number(), memory));
      return window;
    }
  }

  /** True if close has been called. */
  public boolean isClosed() {
    return closed.get();
  }

  /** Throws after close. */
  public void checkOpen(String what) {
    if (closed.get()) {
      throw new InvalidUsageException(
          ErrorId.CLOSED,
          "%s on closed communicator %s".formatted(what, name()),
          "close a communicator after its last use");
    }
  }

  /** Throws after close and while suspended. */
  void checkRunning(String what) {
    checkOpen(what);
    if (suspended) {
      throw new Suspension(this).refusal();
    }
  }

  /**
   * Waits until this rank's operations have ended.
   *
   * @return whether they have, within the time
   */
  public boolean awaitIdle(Duration patience) {
    return idleness.await(patience);
  }

  /**
   * Waits until the operations before {@link #finish} have ended, or close has; throws the first
   * failure. An operation that does not end even after close is close's failure.
   */
  public void awaitFinish() {
    boolean idle = idleness.awaitUnless(() -> left, operationTimeout().plusSeconds(1));
    NcclException failure = failure();
    if (failure != null) {
      throw failure.again();
    }
    if (!idle) {
      throw new TimeoutException(
          ErrorId.STILL_RUNNING,
          "rank %d's operations on communicator %s have not ended within %s after finish"
              .formatted(rank(), name(), Patience.text(operationTimeout())),
          "synchronize the streams before finish, or allow more time"
              + " (CommunicatorConfig.withOperationTimeout or NCCL4J_TIMEOUT)");
    }
  }

  /** Waits as {@link #awaitIdle} does, on a thread that may be interrupted: then it throws. */
  boolean awaitIdleOrInterrupt(Duration patience) {
    return idleness.awaitOrInterrupt(patience);
  }

  /** Returns the time that an operation may wait. */
  public Duration operationTimeout() {
    return request.operationTimeout();
  }

  /**
   * Waits for this rank's operations and frees everything, with an abort if they take too long.
   * Memory of an operation that does not end even then is never freed. Where a step fails, as on a
   * device that is lost, the others are taken, and the first error is thrown at the end.
   */
  public void close(Duration patience) {
    if (!closed.compareAndSet(false, true)) {
      return;
    }
    CloseAll all = new CloseAll();
    all.take(() -> called(() -> "close"));
    if (server != null) {
      all.take(server::close);
    }
    long end = Patience.end(patience);
    boolean idle = false;
    try {
      idle = awaitEnd(patience, end);
    } catch (RuntimeException e) { // of a driver that cannot tell
      all.keep(e);
    }
    lifecycle.lock(); // a suspension that lasted longer than the patience has failed by now
    try {
      idle = suspended ? idle : end(running, idle, all);
    } finally {
      lifecycle.unlock();
    }
    boolean free = idle;
    Engine engine = engine();
    if (free) {
      all.take(dispatcher::endTrials);
    }
    all.take(() -> dispatcher.close(free));
    others.all().forEach(other -> all.take(() -> other.close(free)));
    all.take(engine.launcher().hooks()::close);
    left = true;
    all.take(() -> engine.resources().leave(left(end), free));
    all.end();
  }

  /** True if this rank's operations have ended by a time, or soon after an abort. */
  private boolean awaitEnd(Duration patience, long end) {
    Engine engine = engine();
    boolean idle = engine.launcher().close("%s (rank %d)".formatted(name(), rank()), patience);
    if (idle) {
      idle =
          Patience.until(calls()::areEnded, left(end)) && depart(left(end)) && awaitIdle(left(end));
    }
    if (!idle) {
      engine
          .resources()
          .fail(
              new TimeoutException(
                  ErrorId.STILL_RUNNING,
                  "rank %d closed communicator %s while its operations or collective calls still waited after %s"
                      .formatted(rank(), name(), Patience.text(patience)),
                  "synchronize the streams and end such calls before closing, or give close more time"));
      long aborted = Patience.end(ABORTED);
      idle = engine.launcher().awaitLaunched(ABORTED) && awaitIdle(left(aborted));
    }
    return idle;
  }

  /**
   * Has the other ranks not wait for operations of this one that never come; false if a suspension
   * or resumption lasts longer than the patience.
   */
  private boolean depart(Duration patience) {
    if (!Patience.until(lifecycle::tryLock, patience)) {
      return false;
    }
    try {
      if (!suspended && failure() == null) {
        running.observer.depart();
      }
      return true;
    } finally {
      lifecycle.unlock();
    }
  }

  private static Duration left(long end) {
    return Duration.ofNanos(Math.max(0, end - System.nanoTime()));
  }

  /** True if no copy into windows is under way, as on a device that is lost. */
  private static boolean endWindows(Engine engine, CloseAll all) {
    boolean ended = false;
    try {
      ended = engine.place().windows().end();
    } catch (RuntimeException e) {
      all.keep(e);
      ended = e instanceof CudaException;
    }
    return ended;
  }

  /** True if what belongs to this communicator is freed: nothing uses it any more. */
  private boolean end(Running what, boolean idle, CloseAll all) {
    Engine engine = what.engine;
    boolean ended = idle && failure() == null;
    all.take(() -> engine.launcher().hooks().settle(ended));
    boolean free = idle && endWindows(engine, all);
    boolean shares = engine.kernels() != engine.resources().kernels();
    engine.resources().works(members.id(), false);
    if (free) {
      boolean registered = !engine.place().windows().isUnused();
      all.take(engine.place().windows()::close);
      if (registered) {
        all.take(ProxyThread::forgetBuffers);
      }
    } else {
      String user =
          idle
              ? WindowRegistry.IN_USE
              : "an operation still runs %s after it was aborted".formatted(Patience.text(ABORTED));
      keep(engine, shares, user);
    }
    all.take(what.observer::close);
    if (shares) {
      all.take(engine.resources()::tell);
      if (free) {
        all.take(engine.kernels()::close);
      }
      all.take(bootstrap::close);
    }
    return free;
  }

  /**
   * Keeps the resources that belong to this communicator alone; shared resources keep their own.
   */
  private void keep(Engine engine, boolean shares, String user) {
    long bytes =
        engine.place().windows().memoryBytes() + (shares ? engine.kernels().memoryBytes() : 0);
    KeptMemory.keep(
        this,
        "windows and kernels of communicator %s, rank %d,".formatted(name(), rank()),
        bytes,
        user);
  }
}
