package org.nccl4j.device.cuda.stream;

import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.support.CloseAll;
import org.nccl4j.device.support.Patience;

/**
 * A stream of a GPU, into which plans are launched: of the library's own, or behind a user's {@code
 * CudaStream}. Any thread may call.
 */
public final class GpuStream implements AutoCloseable {
  /** Between two looks at something that a thread waits for. */
  public static final long POLL_NANOS = 20_000;

  /** CU_STREAM_PER_THREAD; 0 and CU_STREAM_LEGACY, which is 1, are the legacy default stream. */
  private static final long PER_THREAD = 2;

  private final Gpu gpu;
  private final long handle;
  private final boolean owned;
  private volatile long id; // 0 for one of the driver's own, and until it is known
  private final List<StreamUser> users = new CopyOnWriteArrayList<>();

  /** Failures of closed communicators that no wait has reported yet. */
  private final Queue<NcclException> unreported = new ConcurrentLinkedQueue<>();

  private final AtomicLong graphs = new AtomicLong();
  private final Object lifetime = new Object();
  private volatile boolean closed;

  /**
   * A stream.
   *
   * @param handle the CUstream
   * @param owned whether this library has made it
   */
  public GpuStream(Gpu gpu, long handle, boolean owned) {
    this.gpu = gpu;
    this.handle = handle;
    this.owned = owned;
    this.id = isImplicit() ? 0 : currentId();
  }

  private static GpuStream make(Gpu gpu, ToLongFunction<Gpu> maker) {
    long handle = gpu.context().get(() -> maker.applyAsLong(gpu));
    return new GpuStream(gpu, handle, /* owned= */ true);
  }

  /** A new stream of ordinary priority. */
  public static GpuStream ordinary(Gpu gpu) {
    return make(gpu, CudaLibrary::createStream);
  }

  /**
   * A stream of the library's for what others' waits wait for. Its priority is the highest: the
   * streams of one priority share a few queues of the hardware, where it could come to be behind
   * just such a wait.
   */
  public static GpuStream urgent(Gpu gpu) {
    return make(gpu, CudaLibrary::createUrgentStream);
  }

  /**
   * A stream of the library's that waits for other ranks. Its priority is above that of ordinary
   * streams, which would stand still behind a wait in a queue of the hardware that they share, and
   * below that of {@link #urgent}.
   */
  public static GpuStream waiting(Gpu gpu) {
    return make(gpu, CudaLibrary::createWaitingStream);
  }

  public Gpu gpu() {
    return gpu;
  }

  /** The CUstream. */
  public long handle() {
    return handle;
  }

  public boolean isClosed() {
    return closed;
  }

  /** True if this library has made it. */
  public boolean isOwned() {
    return owned;
  }

  /**
   * Adds a communicator whose failures {@link #synchronize} reports. Allocates for a new one.
   *
   * @return false if it was added before
   */
  boolean addUser(StreamUser user) {
    return !users.contains(user) && users.add(user);
  }

  /**
   * Removes a communicator that is closed: the stream may stay open for as long as the process.
   *
   * @param failure the communicator's, which a later wait reports; null if it has none
   */
  void removeUser(StreamUser user, NcclException failure) {
    if (users.remove(user) && failure != null) {
      unreported.add(failure);
    }
  }

  /** Tells the users' orders that the stream is about to be captured, or may be. */
  public void beforeCapture() {
    users.forEach(user -> user.order().beforeCapture(this));
  }

  /** Waits until all that was launched so far has ended. */
  public void synchronize() {
    if (VirtualThreads.isCurrent()) {
      awaitIdle();
    }
    if (closed) { // which has waited
      return;
    }
    if (isImplicit()) { // one of the current context's
      synchronizeInContext();
    } else {
      CudaLibrary.synchronizeStream(handle, gpu);
    }
  }

  private void synchronizeInContext() {
    long before = gpu.context().enter();
    try {
      CudaLibrary.synchronizeStream(handle, gpu);
    } finally {
      gpu.context().leave(before);
    }
  }

  /** The driver's own wait would keep the carrier from all other virtual threads. */
  private void awaitIdle() {
    while (!closed && isBusy()) {
      Patience.sleep(POLL_NANOS);
    }
  }

  /** False while the stream is being captured. The carrier may be another one at the next look. */
  private boolean isBusy() {
    long before = gpu.context().enter();
    try {
      return !CudaLibrary.mayBeCapturing(handle, gpu) && !CudaLibrary.isStreamIdle(handle, gpu);
    } finally {
      gpu.context().leave(before);
    }
  }

  /** Throws the failure of a communicator whose work here has ended; each communicator's once. */
  public void throwFailure() {
    NcclException left = unreported.poll();
    if (left != null) {
      throw left.again();
    }
    for (StreamUser user : users) {
      NcclException failure = user.settledFailure();
      if (failure != null && users.remove(user)) { // else its close has just removed it
        throw failure.again();
      }
    }
  }

  /** True if all that was launched so far has ended; no while the stream is being captured. */
  public boolean isIdle() {
    if (closed) {
      return true;
    }
    long before = gpu.context().enter();
    try {
      return !CudaLibrary.mayBeCapturing(handle, gpu) && CudaLibrary.isStreamIdle(handle, gpu);
    } finally {
      gpu.context().leave(before);
    }
  }

  /** True while the stream is being captured. */
  public boolean isCapturing() {
    if (closed) {
      return false;
    }
    if (!isImplicit()) {
      return CudaLibrary.isCapturing(handle, gpu);
    }
    long before = gpu.context().enter();
    try {
      return CudaLibrary.isCapturing(handle, gpu);
    } finally {
      gpu.context().leave(before);
    }
  }

  /**
   * True if it is one of the driver's own, whose handle means another stream in another context or
   * on another thread.
   */
  boolean isImplicit() {
    return isImplicit(handle);
  }

  /** True if its handle means another stream on another thread. */
  public boolean isOfCallingThread() {
    return handle == PER_THREAD;
  }

  /** {@link #isImplicit()} for a handle. */
  public static boolean isImplicit(long handle) {
    return handle >= 0 && handle <= PER_THREAD;
  }

  /**
   * True if what is put into both is in the order of the calls. Streams that are wrapped anew at
   * each call are the same. A stream that was destroyed and one that got its handle are not: work
   * of the first may be under way.
   */
  @HotPath
  public boolean isSameAs(GpuStream other) {
    return other != null
        && other.handle == handle
        && other.id == id
        && other.gpu == gpu
        && !isImplicit();
  }

  /** True if the stream was destroyed and its handle is another stream's now. */
  @HotPath
  public boolean isHandleReused() {
    if (isImplicit()) {
      return false;
    }
    long now = currentId();
    if (id == 0) { // it was captured when it was wrapped
      id = now;
    }
    return now != 0 && now != id;
  }

  /** The number of the stream that the handle means now. 0 while it is captured. */
  @HotPath
  private long currentId() {
    long before = gpu.context().enter();
    try {
      return CudaLibrary.streamId(handle, gpu);
    } finally {
      gpu.context().leave(before);
    }
  }

  /** Graphs of this library that were launched into it so far. */
  long graphs() {
    return graphs.get();
  }

  /** Counts the launch of a graph. */
  public void addGraph() {
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

  /** Waits for all that was launched, and destroys the stream where this library has made it. */
  @Override
  public void close() {
    close(() -> {});
  }

  /**
   * Closes it as {@link #close()} does.
   *
   * @param marked called when it counts as closed, before what was launched has ended
   */
  public void close(Runnable marked) {
    markClosed(marked); // so that nobody waits here for what the stream waits for
    if (owned) {
      CloseAll all = new CloseAll();
      all.take(() -> CudaLibrary.synchronizeStream(handle, gpu));
      all.take(() -> CudaLibrary.destroyStream(handle, gpu));
      all.end();
    }
  }

  /**
   * Closes it once all that a group has launched has ended; until then it is open to this library,
   * since others go by it.
   *
   * @param marked called when it counts as closed
   */
  public void closeLate(Runnable marked) {
    if (owned) {
      CudaLibrary.synchronizeStream(handle, gpu);
    }
    markClosed(marked);
    if (owned) {
      CudaLibrary.destroyStream(handle, gpu);
    }
  }

  private void markClosed(Runnable marked) {
    synchronized (lifetime) {
      closed = true;
      marked.run();
    }
  }
}
