package org.nccl4j.device.cuda;

import java.time.Duration;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;
import jcuda.driver.CUresult;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.Leases;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.driver.CaptureLibrary;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.DeferredFree;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.stream.CaptureRegistry;
import org.nccl4j.device.cuda.stream.GpuStream;
import org.nccl4j.device.cuda.stream.HostFunctions;
import org.nccl4j.device.support.HeldCalls;
import org.nccl4j.device.support.Patience;

/** A CUDA stream, of ours or of the user's. */
public final class CudaStream extends DeviceStream {
  private final CudaDevice device;
  private final GpuStream stream;
  private final AtomicReference<NcclException> hostFailure = new AtomicReference<>();
  private CaptureRegistry.Capture capture; // the current capture, or null

  /**
   * Leases of a stream that was closed while a group holds calls for it. A thread waits for its
   * end.
   */
  private static final class Ending extends Leases {
    private CudaStream of;

    @Override
    protected void free() {
      of.stream.close(of::forgetCapture);
    }

    @Override
    protected void freeLate() {
      DeferredFree.later(() -> of.stream.closeLate(of::forgetCapture), of.device);
    }
  }

  CudaStream(CudaDevice device, GpuStream stream) {
    this(device, stream, new Ending());
  }

  private CudaStream(CudaDevice device, GpuStream stream, Ending ending) {
    super(ending);
    ending.of = this;
    this.device = device;
    this.stream = stream;
  }

  /** Throws after close: the driver does not define calls on destroyed streams. */
  @SuppressWarnings("exports") // to this library alone
  GpuStream open() {
    if (stream.isClosed()) {
      throw closed();
    }
    return stream;
  }

  /**
   * The CUstream as a number. Where this library has made the stream, {@link #beginCapture} and
   * {@link #await} alone capture it: a capture that others begin or join by this number may go
   * unnoticed.
   */
  public long handle() {
    return stream.handle();
  }

  /**
   * True if the user has destroyed the stream and the driver has given its handle to another one,
   * which is to be wrapped anew. Only for handles of streams that exist.
   */
  @HotPath
  public boolean isHandleReused() {
    return stream.isHandleReused();
  }

  @Override
  public CudaDevice device() {
    return device;
  }

  @Override
  public boolean isOfCallingThread() {
    return stream.isOfCallingThread();
  }

  @Override
  public void synchronize() {
    if (HeldCalls.mayExist()) {
      HeldCalls.awaits(this);
    }
    stream.synchronize();
    NcclException first = hostFailure.getAndSet(null);
    if (first != null) {
      throw first.again();
    }
    stream.throwFailure();
  }

  @Override
  public void synchronize(Duration timeout) {
    long nanos = Patience.nanos(Arguments.notNull(timeout, "timeout"));
    long start = System.nanoTime();
    while (!isIdle()) {
      if (System.nanoTime() - start > nanos) {
        throw new TimeoutException(
            ErrorId.STILL_RUNNING,
            "a stream of %s was not done after %s".formatted(device, Patience.text(timeout)),
            "look for a rank that did not take part, or wait longer");
      }
      Patience.sleep(GpuStream.POLL_NANOS);
    }
    synchronize();
  }

  @Override
  public boolean isIdle() {
    return stream.isIdle();
  }

  @Override
  public void record(DeviceEvent event) {
    open();
    Gpu gpu = device.gpu();
    long before = gpu.context().enter();
    try {
      CudaLibrary.recordEvent(cuda(event).handle(), handle(), gpu);
    } finally {
      gpu.context().leave(before);
    }
  }

  /** {@inheritDoc} An event of a stream that is being captured makes this stream captured too. */
  @Override
  public void await(DeviceEvent event) {
    GpuStream into = open();
    Gpu gpu = device.gpu();
    long handle = cuda(event).handle();
    into.beforeCapture();
    long before = gpu.context().enter();
    try {
      CudaLibrary.awaitEvent(into.handle(), handle, gpu);
    } finally {
      gpu.context().leave(before);
    }
  }

  /** The driver's own streams are those of the current context. */
  private <T> T inContext(Function<Gpu, T> call) {
    Gpu gpu = device.gpu();
    long before = gpu.context().enter();
    try {
      return call.apply(gpu);
    } finally {
      gpu.context().leave(before);
    }
  }

  @Override
  public void copy(DeviceMemory source, DeviceMemory target) {
    checkCopy(source, target);
    open();
    Leases.begin(source, target); // until the driver knows of the copy, and frees after it
    try {
      if (source.size() > 0) {
        Gpu gpu = device.gpu();
        gpu.context()
            .run(
                () ->
                    CudaLibrary.copyAsync(
                        target.address(), source.address(), source.size(), handle(), gpu));
      }
    } finally {
      Leases.end(source, target);
    }
  }

  @Override
  public boolean isCapturing() {
    return stream.isCapturing();
  }

  @Override
  public long captureNumber() {
    if (!stream.isCapturing()) {
      return 0;
    }
    Offheap scratch = new Offheap(CaptureLibrary.SCRATCH_BYTES);
    return inContext(gpu -> CaptureLibrary.capture(handle(), scratch, gpu));
  }

  @Override
  public void launchHostFunction(Runnable function) {
    Arguments.notNull(function, "function");
    GpuStream into = open();
    inContext(
        gpu -> {
          HostFunctions.launch(
              into.handle(), () -> runHostFunction(function), device.captures().of(into), gpu);
          return null;
        });
  }

  /** The driver's thread must not get what it throws. */
  private void runHostFunction(Runnable function) {
    try {
      function.run();
    } catch (Throwable e) { // some languages throw checked exceptions anywhere
      hostFailure.compareAndSet(null, thrown(e));
    }
  }

  /**
   * From here to {@link #endCapture} what this thread launches into the stream is not run but
   * recorded; collectives and groups too.
   */
  public synchronized void beginCapture() {
    stream.beforeCapture();
    long handle = open().handle();
    capture =
        inContext(
            gpu -> {
              CudaLibrary.beginCapture(handle, gpu);
              forgetCapture(); // one that others ended
              return device.captures().begun(stream);
            });
  }

  /** Ends the capture and returns it, ready to be launched any number of times. */
  public synchronized CudaGraph endCapture() {
    long handle = open().handle();
    long graph;
    try {
      graph = inContext(gpu -> CudaLibrary.endCapture(handle, gpu));
    } catch (CudaException e) {
      if (e.result() != CUresult.CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD) {
        takeCapture().free();
      }
      throw e;
    }
    return new CudaGraph(device.gpu(), graph, takeCapture());
  }

  /** The current capture, which is over. */
  private CaptureRegistry.Capture takeCapture() {
    CaptureRegistry.Capture taken = capture;
    forgetCapture();
    return taken == null ? CaptureRegistry.Capture.unknown() : taken;
  }

  private void forgetCapture() {
    if (capture != null) {
      device.captures().ended(capture);
      capture = null;
    }
  }

  @Override
  public void close() {
    Leases.of(this).close(this);
  }

  private static CudaEvent cuda(DeviceEvent event) {
    if (Arguments.notNull(event, "event") instanceof CudaEvent cuda) {
      return cuda;
    }
    throw new InvalidArgumentException(
        ErrorId.EVENT,
        "an event of another kind of device is used in a CUDA stream",
        "create the event with the stream's device");
  }
}
