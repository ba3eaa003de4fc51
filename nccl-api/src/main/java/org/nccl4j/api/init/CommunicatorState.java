package org.nccl4j.api.init;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.group.OneSidedCalls;
import org.nccl4j.api.group.RankQueue;
import org.nccl4j.api.observe.FlightLog;
import org.nccl4j.api.observe.Observer;
import org.nccl4j.api.observe.OperationHooks;
import org.nccl4j.api.plan.DirectPlanner;
import org.nccl4j.api.plan.OneSided;
import org.nccl4j.api.plan.Planner;
import org.nccl4j.api.settings.DebugSettings;
import org.nccl4j.api.window.RegisteredWindow;
import org.nccl4j.api.window.WindowRegistry;
import org.nccl4j.device.Device;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.TimeoutException;

/** Everything behind one rank's communicator, from its creation to its end. Any thread. */
public final class CommunicatorState {
  private static final long POLL_NANOS = 50_000;

  private final InitRequest request;
  private final Bootstrap bootstrap;
  private final Members members;
  private final Engine engine;
  private final Observer observer;
  private final WindowRegistry windows;
  private final OneSidedCalls oneSided;
  private final AtomicInteger children = new AtomicInteger();
  private final AtomicBoolean closed = new AtomicBoolean();

  CommunicatorState(InitRequest request, Bootstrap bootstrap, Members members, Engine engine) {
    this.request = request;
    this.bootstrap = bootstrap;
    this.members = members;
    this.engine = engine;
    FlightLog.Rank flight =
        new FlightLog.Rank(
            request.name(),
            members.id(),
            bootstrap.rank(),
            members.peers().size(),
            OneSided.labels());
    FlightLog log = FlightLog.open(flight);
    engine.launcher().record(log);
    this.observer =
        Observer.watch(
            log,
            flight,
            engine.kernels(),
            engine.launcher().hooks(),
            engine.family()::tell,
            request.settings().get(DebugSettings.NCCL4J_FLIGHT_FILE));
    this.windows = engine.place().windows();
    this.oneSided =
        new OneSidedCalls(
            request.name(), bootstrap.rank(), windows, engine.kernels(), engine.launcher());
  }

  /** The windows of this rank. */
  public WindowRegistry windows() {
    return windows;
  }

  /** Where one-sided operations go. */
  public OneSidedCalls oneSided() {
    return oneSided;
  }

  /** Who decides whether they go straight between windows. */
  public DirectPlanner direct() {
    return engine.queue().direct();
  }

  /** Drops a window together with all other ranks. */
  public void deregister(RegisteredWindow window) {
    windows.deregister(window, !engine.kernels().isIdle());
  }

  /** Where operations go. */
  public RankQueue queue() {
    return engine.queue();
  }

  /** Who decides how they are done. */
  public Planner planner() {
    return engine.queue().planner();
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

  /** For messages and logs. */
  public String name() {
    return request.name();
  }

  /** The transport to each other rank. */
  public Map<Integer, String> routes() {
    return engine.routes();
  }

  /** Who is told of this rank's operations. */
  public OperationHooks hooks() {
    return engine.launcher().hooks();
  }

  /** The first failure, or null. */
  public NcclException failure() {
    return engine.kernels().failure();
  }

  InitRequest request() {
    return request;
  }

  Bootstrap bootstrap() {
    return bootstrap;
  }

  Members members() {
    return members;
  }

  Engine engine() {
    return engine;
  }

  /** A number for what is made from this communicator: the same on all ranks. */
  int nextChild() {
    return children.incrementAndGet();
  }

  /**
   * Where operations of this communicator go that are planned by settings over its own; every rank
   * uses the same.
   */
  public RankQueue queue(Map<String, String> overrides) {
    return engine.queue(request.settings().with(overrides));
  }

  /** Bytes that the communicator holds on this rank's device, by what for. */
  public Map<String, Long> memory() {
    return Memory.of(this);
  }

  /** Ends this rank's operations with an error and tells the others. */
  public void abort() {
    engine
        .family()
        .fail(
            new InvalidUsageException(
                "communicator %s was aborted by rank %d".formatted(name(), rank()),
                "make a new communicator, of the ranks that are left with shrink"));
  }

  /** Ends all ranks' operations with an error, so that they can agree on a new communicator. */
  public void revoke() {
    engine
        .family()
        .fail(
            new InvalidUsageException(
                "communicator %s was revoked by rank %d".formatted(name(), rank()),
                "make another communicator with shrink, or close this one"));
  }

  /** Refuses further operations. */
  public void finish() {
    engine
        .launcher()
        .refuse(
            new InvalidUsageException(
                "an operation is called on communicator %s after finish".formatted(name()),
                "call finish after the last operation"));
  }

  /** Throws after close. */
  void checkOpen(String what) {
    if (closed.get()) {
      throw new InvalidUsageException(
          "%s on closed communicator %s".formatted(what, name()),
          "close a communicator after its last use");
    }
  }

  /**
   * Waits until this rank's operations have ended.
   *
   * @return whether they have, within the time
   */
  public boolean awaitIdle(Duration patience) {
    long endNanos = System.nanoTime() + patience.toNanos();
    while (!engine.kernels().isIdle() || !engine.family().isIdle()) {
      if (System.nanoTime() - endNanos >= 0) {
        return false;
      }
      LockSupport.parkNanos(POLL_NANOS);
    }
    return true;
  }

  /** How long an operation may wait. */
  public Duration operationDeadline() {
    return request.operationDeadline();
  }

  /** Waits for this rank's operations and frees everything, with an abort if they take too long. */
  public void close(Duration patience) {
    if (!closed.compareAndSet(false, true)) {
      return;
    }
    engine.launcher().close();
    if (!awaitIdle(patience)) {
      engine
          .family()
          .fail(
              new TimeoutException(
                  "rank %d closed communicator %s while its operations still waited after %s"
                      .formatted(rank(), name(), patience),
                  "synchronize the streams before closing, or give close more time"));
      awaitIdle(Duration.ofSeconds(1));
    }
    windows.close();
    if (engine.kernels() != engine.family().kernels()) {
      engine.family().tell();
      engine.kernels().close();
      bootstrap.close();
    }
    observer.close();
    engine.launcher().hooks().close();
    engine.family().leave();
  }
}
