package org.nccl4j.device.cuda;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;
import jcuda.driver.CUresult;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.Given;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.Leases;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.Patience;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.kernel.HeldCalls;

/** A CUDA stream, of ours or of the user's. */
public final class CudaStream extends DeviceStream {
  private static final long POLL_NANOS = 20_000;

  /** 0 and CU_STREAM_LEGACY are the legacy default stream, CU_STREAM_PER_THREAD is the thread's. */
  private static final long MOST_IMPLICIT = 2;

  private final CudaDevice device;
  private final long handle;
  private final boolean owned;
  private final List<CudaKernelCommunicator> users = new CopyOnWriteArrayList<>();
  private final AtomicReference<NcclException> hostFailure = new AtomicReference<>();
  private final AtomicLong graphs = new AtomicLong();
  private final Object lifetime = new Object();
  private Captures.Capture capture; // under way; null while there is none
  private volatile boolean closed;

  /** Of a stream that is closed while a group holds calls for it: a thread waits for its end. */
  private static final class Ending extends Leases {
    private CudaStream of;

    @Override
    protected void free() {
      of.end();
    }

    @Override
    protected void freeLate() {
      LateFree.later(of::endLate, of.device);
    }
  }

  CudaStream(CudaDevice device, long handle, boolean owned) {
    this(device, handle, owned, new Ending());
  }

  private CudaStream(CudaDevice device, long handle, boolean owned, Ending ending) {
    super(ending);
    ending.of = this;
    this.device = device;
    this.handle = handle;
    this.owned = owned;
  }

  /** Throws after close: what the driver does with a stream that it has destroyed is undefined. */
  long open() {
    if (closed) {
      throw closed();
    }
    return handle;
  }

  /**
   * A stream of the library's for what others' waits wait for. Its priority is the highest: the
   * streams of one priority share a few queues of the hardware, where it could come to be behind
   * just such a wait.
   */
  static CudaStream urgent(CudaDevice device) {
    return new CudaStream(
        device,
        device.context().get(() -> CudaLibrary.createUrgentStream(device)),
        /* owned= */ true);
  }

  /**
   * A stream of the library's that waits for other ranks. Its priority is above that of ordinary
   * streams, which would stand still behind a wait in a queue of the hardware that they share, and
   * below that of {@link #urgent}.
   */
  static CudaStream waiting(CudaDevice device) {
    return new CudaStream(
        device,
        device.context().get(() -> CudaLibrary.createWaitingStream(device)),
        /* owned= */ true);
  }

  /**
   * The CUstream as a number. Where this library has made the stream, {@link #beginCapture} alone
   * captures it: a capture that others begin by this number may go unnoticed.
   */
  public long handle() {
    return handle;
  }

  boolean isClosed() {
    return closed;
  }

  /** Whether this library has made it. */
  boolean isOwned() {
    return owned;
  }

  /** Whose failures this stream's synchronize reports. Not allocating for one that is known. */
  void addUser(CudaKernelCommunicator user) {
    if (!users.contains(user)) {
      users.add(user);
    }
  }

  @Override
  public CudaDevice device() {
    return device;
  }

  @Override
  public void synchronize() {
    HeldCalls.awaits(this);
    if (VirtualThreads.isCurrent()) {
      awaitIdle();
    }
    if (!closed) { // which has waited
      long before = device.context().enter(); // the driver's own streams are the context's
      try {
        CudaLibrary.synchronizeStream(handle, device);
      } finally {
        device.context().leave(before);
      }
    }
    throwFailure();
  }

  /** The driver's own wait would keep the carrier from all other virtual threads. */
  private void awaitIdle() {
    while (!closed
        && !CudaLibrary.mayBeCapturing(handle, device)
        && !CudaLibrary.isStreamIdle(handle, device)) {
      Patience.sleep(POLL_NANOS);
    }
  }

  @Override
  public void synchronize(Duration patience) {
    long nanos = Patience.nanos(Given.notNull(patience, "time to wait"));
    long start = System.nanoTime();
    while (!isIdle()) {
      if (System.nanoTime() - start > nanos) {
        throw new TimeoutException(
            ErrorId.STILL_RUNNING,
            "a stream of %s was not done after %s".formatted(device, Patience.text(patience)),
            "look for a rank that did not take part, or wait longer");
      }
      Patience.sleep(POLL_NANOS);
    }
    synchronize();
  }

  @Override
  public boolean isIdle() {
    if (closed) {
      return true;
    }
    long before = device.context().enter();
    try {
      return !CudaLibrary.mayBeCapturing(handle, device)
          && CudaLibrary.isStreamIdle(handle, device);
    } finally {
      device.context().leave(before);
    }
  }

  /**
   * Whether it is one of the driver's own, whose handle means another stream in another context or
   * on another thread.
   */
  boolean isImplicit() {
    return handle >= 0 && handle <= MOST_IMPLICIT;
  }

  /**
   * Whether what is put into both is in the order of the calls. Streams that are wrapped anew at
   * each call are the same.
   */
  @HotPath
  boolean isSameAs(CudaStream other) {
    return other != null && other.handle == handle && other.device == device && !isImplicit();
  }

  /** Graphs of this library that were launched into it so far. */
  long graphs() {
    return graphs.get();
  }

  /** Counts the launch of a graph. */
  void addGraph() {
    graphs.incrementAndGet();
  }

  /**
   * Does something with the stream unless it has been closed, which waits meanwhile.
   *
   * @return what it did; null if it was closed
   */
  <T> T whileOpen(Supplier<T> action) {
    synchronized (lifetime) {
      return closed ? null : action.get();
    }
  }

  @Override
  public void record(DeviceEvent event) {
    open();
    long before = device.context().enter();
    try {
      CudaLibrary.recordEvent(cuda(event).handle(), handle, device);
    } finally {
      device.context().leave(before);
    }
  }

  @Override
  public void await(DeviceEvent event) {
    open();
    long before = device.context().enter();
    try {
      CudaLibrary.awaitEvent(handle, cuda(event).handle(), device);
    } finally {
      device.context().leave(before);
    }
  }

  @Override
  public void copy(DeviceMemory source, DeviceMemory target) {
    checkCopy(source, target);
    open();
    Leases.begin(source, target); // until the driver knows of the copy, and frees after it
    try {
      if (source.size() > 0) {
        device
            .context()
            .run(
                () ->
                    CudaLibrary.copyAsync(
                        target.address(), source.address(), source.size(), handle, device));
      }
    } finally {
      Leases.end(source, target);
    }
  }

  @Override
  public boolean isCapturing() {
    return !closed && CudaLibrary.isCapturing(handle, device);
  }

  @Override
  public void launchHostFunction(Runnable function) {
    Given.notNull(function, "function");
    HostFunctions.launch(
        open(),
        () -> {
          try {
            function.run();
          } catch (RuntimeException | Error e) { // the driver's thread must not get it
            hostFailure.compareAndSet(null, thrown(e));
          }
        },
        device);
  }

  /**
   * From here to {@link #endCapture} what this thread launches into the stream is not run but
   * recorded; collectives and groups too.
   */
  public synchronized void beginCapture() {
    users.forEach(user -> user.order().beforeCapture(this));
    CudaLibrary.beginCapture(open(), device);
    forgetCapture(); // one that others ended
    capture = device.context().captures().begun(this);
  }

  /** Ends the capture; what was recorded, ready to be launched any number of times. */
  public synchronized CudaGraph endCapture() {
    long graph;
    try {
      graph = CudaLibrary.endCapture(open(), device);
    } catch (CudaException e) {
      if (e.result() != CUresult.CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD) {
        forgetCapture();
      }
      throw e;
    }
    List<ConnectionOrder> orders = capture == null ? List.of() : capture.orders();
    forgetCapture();
    return new CudaGraph(device, graph, orders);
  }

  private void forgetCapture() {
    if (capture != null) {
      device.context().captures().ended(capture);
      capture = null;
    }
  }

  @Override
  public void close() {
    Leases.of(this).close();
  }

  private void end() {
    markClosed(); // so that nobody waits here for what the stream waits for
    if (owned) {
      CudaLibrary.synchronizeStream(handle, device);
      CudaLibrary.destroyStream(handle, device);
    }
  }

  /** Open to this library until all that a group has launched has ended, as others go by it. */
  private void endLate() {
    if (owned) {
      CudaLibrary.synchronizeStream(handle, device);
    }
    markClosed();
    if (owned) {
      CudaLibrary.destroyStream(handle, device);
    }
  }

  private void markClosed() {
    synchronized (lifetime) {
      closed = true;
      forgetCapture();
    }
  }

  private void throwFailure() {
    NcclException first = hostFailure.getAndSet(null);
    if (first != null) {
      throw first.again();
    }
    for (CudaKernelCommunicator user : users) {
      NcclException failure = user.settledFailure();
      if (failure != null) {
        users.remove(user);
        throw failure.again();
      }
    }
  }

  private static CudaEvent cuda(DeviceEvent event) {
    if (Given.notNull(event, "event") instanceof CudaEvent cuda) {
      return cuda;
    }
    throw new InvalidArgumentException(
        ErrorId.EVENT,
        "an event of another kind of device is used in a CUDA stream",
        "create the event with the stream's device");
  }
}
