package org.nccl4j.device.host.stream;

import java.nio.ByteBuffer;
import java.time.Duration;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.Leases;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.support.HeldCalls;
import org.nccl4j.device.support.Patience;

/** A stream of the host device; see the package's description. */
public final class HostStream extends DeviceStream {
  private static final int COPY_BYTES = 1 << 20;

  private final Device device;
  private final Dispatcher dispatcher;
  private final LaunchQueue queue;
  private final StreamThread thread;

  /** True when launches should start without waiting for a thread that synchronizes. */
  private volatile boolean eager;

  /** A stream whose abandoned launches a dispatcher looks after. */
  public HostStream(Device device, Dispatcher dispatcher) {
    this(device, dispatcher, new LaunchQueue());
  }

  private HostStream(Device device, Dispatcher dispatcher, LaunchQueue queue) {
    super(Leases.freeing(queue::seal));
    this.device = device;
    this.dispatcher = dispatcher;
    this.queue = queue;
    this.thread = new StreamThread(queue);
    dispatcher.add(this);
  }

  /** This stream, if it is of the host; for kernels. */
  public static HostStream of(DeviceStream stream) {
    if (stream instanceof HostStream host) {
      return host;
    }
    throw new InvalidArgumentException(
        ErrorId.STREAM,
        "a stream of " + stream.device().name() + " is given to the host device",
        "launch into a stream of the communicator's own device");
  }

  /** Puts an operation into the queue, which runs. */
  @HotPath
  public void launch(StreamOperation operation, HostMemory send, HostMemory recv, long ticket) {
    add(operation, send, recv, ticket);
    begin();
  }

  /** Puts an operation into the queue; to be followed by {@link #begin}. */
  @HotPath
  public void add(StreamOperation operation, HostMemory send, HostMemory recv, long ticket) {
    if (!queue.add(operation, send, recv, ticket)) {
      addWhenThereIsRoom(operation, send, recv, ticket);
    }
  }

  /** Has a thread look at the queue, if none does. What was added stays in it if this throws. */
  @HotPath
  public void begin() {
    if (eager) {
      thread.wake();
    } else if (dispatcher.isAsleep()) {
      dispatcher.wake();
    }
  }

  /**
   * Lends the thread to the first launches of a full queue: it would have to wait for them anyway,
   * and on its own core nobody else could run them. It runs as many as a connection has slots for
   * small steps: with more, a rank that sends would wait while the receiving rank launches. A queue
   * that grows is never full.
   */
  private void addWhenThereIsRoom(
      StreamOperation operation, HostMemory send, HostMemory recv, long ticket) {
    do {
      lendUntil(queue.added() - LaunchQueue.CAPACITY + LaunchQueue.BATCH);
    } while (!queue.add(operation, send, recv, ticket));
  }

  /** Gives the stream a thread for its queue, without waiting for a thread that synchronizes. */
  @Override
  public void startNow() {
    if (queue.ended() != queue.added()) {
      thread.wake();
    }
  }

  /** Lends the thread to the earlier launches, so that only later launches accumulate. */
  @Override
  public void grow(boolean begins) {
    if (begins) {
      lendUntil(queue.added() - LaunchQueue.CAPACITY / 2);
    }
    queue.grow(begins);
  }

  /**
   * Runs launches that have waited for a while. The dispatcher calls it. The thread is there before
   * launches wake it, so that no launch has to make it.
   */
  void startAbandoned() {
    thread.wake();
    eager = true;
  }

  boolean isAbandoned(long endedBefore) {
    return !queue.isRunning() && queue.ended() == endedBefore && queue.added() != endedBefore;
  }

  /** True if all has ended and nobody is launching. */
  boolean isQuiet() {
    return queue.isQuiet();
  }

  /** Keeps the memories of the last launch reachable no longer, if all has ended. */
  void forgetEnded() {
    queue.forgetEnded();
  }

  long ended() {
    return queue.ended();
  }

  long launched() {
    return queue.added();
  }

  @Override
  public Device device() {
    return device;
  }

  @Override
  public void synchronize() {
    if (HeldCalls.mayExist()) {
      HeldCalls.awaits(this);
    }
    waitUntil(queue.added(), Long.MAX_VALUE);
    throwError();
  }

  @Override
  public void synchronize(Duration timeout) {
    long end = Patience.end(Arguments.notNull(timeout, "timeout"));
    if (HeldCalls.mayExist()) {
      HeldCalls.awaits(this);
    }
    startNow();
    if (!waitUntil(queue.added(), end)) {
      throw new TimeoutException(
          ErrorId.STILL_RUNNING,
          "a host stream still has %d operations to run after %s"
              .formatted(queue.added() - queue.ended(), Patience.text(timeout)),
          "wait longer, or find out which rank has not made the matching call");
    }
    throwError();
  }

  /**
   * Waits until launches up to a position have ended, lending the thread unless there is an end.
   */
  boolean waitUntil(long position, long endNanos) {
    if (endNanos == Long.MAX_VALUE) {
      lendUntil(position);
      return true;
    }
    for (int looks = 1; queue.ended() < position; looks++) {
      Backoff.idle(looks, Backoff.SPINS);
      if (System.nanoTime() - endNanos >= 0) {
        return false;
      }
    }
    return true;
  }

  private void lendUntil(long position) {
    if (queue.ended() >= position) {
      return;
    }
    if (!queue.run(position)) {
      awaitRunner(position);
    }
    eager = false;
  }

  /**
   * Another thread runs launches now: takes over where that gives way. Several threads may wait,
   * and warm operations allocate nothing, so each counts its looks itself.
   */
  private void awaitRunner(long position) {
    queue.lends(true);
    try {
      for (int looks = 1; queue.ended() < position && !queue.run(position); looks++) {
        Backoff.idle(looks, Backoff.SPINS);
      }
    } finally {
      queue.lends(false);
    }
  }

  private void throwError() {
    NcclException error = queue.takeError();
    if (error != null) {
      throw error.again();
    }
  }

  /** True if all that was launched so far has ended; unlike isIdle it starts nothing. */
  public boolean isEmpty() {
    return queue.ended() == queue.added();
  }

  @Override
  public boolean isIdle() {
    boolean idle = queue.ended() == queue.added();
    if (!idle) {
      startNow();
    }
    return idle;
  }

  @Override
  public void record(DeviceEvent event) {
    HostEvent host = HostEvent.of(event);
    HostEvent.Recording recording = new HostEvent.Recording(this, queue.added());
    launch(recording, null, null, 0);
    host.launched(recording);
  }

  @Override
  public void await(DeviceEvent event) {
    launch(HostEvent.of(event).waiting(), null, null, 0);
  }

  @Override
  public void copy(DeviceMemory source, DeviceMemory target) {
    checkCopy(source, target);
    launch(HostStream::copyNow, HostMemory.of(source), HostMemory.of(target), 0);
  }

  @Override
  public void launchHostFunction(Runnable function) {
    Arguments.notNull(function, "function");
    launch(
        (send, recv, ticket) -> {
          try {
            function.run();
          } catch (Throwable e) { // some languages throw checked exceptions anywhere
            throw thrown(e);
          }
        },
        null,
        null,
        0);
  }

  private static void copyNow(HostMemory source, HostMemory target, long ticket) {
    long size = source.size();
    long ahead = target.address() - source.address();
    boolean backwards = ahead > 0 && ahead < size; // else what is read later would be overwritten
    for (long done = 0; done < size; done += COPY_BYTES) {
      int bytes = (int) Math.min(COPY_BYTES, size - done);
      long at = backwards ? size - done - bytes : done;
      ByteBuffer from = source.window(at);
      target.window(at).put(target.index(at), from, source.index(at), bytes);
    }
  }

  /** Launches added so far, also by threads that are just adding. */
  long launchedByAll() {
    return queue.addedByAll();
  }

  /** Gives up the thread of a closed stream after its last launch. */
  void retireIfOver() {
    if (queue.isOver()) {
      dispatcher.remove(this);
      thread.stop();
    }
  }

  @Override
  public void close() {
    if (Leases.of(this).close(this)) {
      waitUntil(queue.added(), Long.MAX_VALUE);
      retireIfOver();
    }
  }
}
