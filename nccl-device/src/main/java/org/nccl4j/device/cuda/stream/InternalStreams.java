package org.nccl4j.device.cuda.stream;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.driver.CaptureLibrary;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.driver.GpuCleanup;
import org.nccl4j.device.support.CloseAll;

/**
 * Streams of a communicator beside the user's, for parts of an operation that may go at the same
 * time as the others. While a graph is captured another is used than otherwise: it belongs to that
 * capture until its end, and neither launches elsewhere nor other captures must get into it. Used
 * by the thread that launches.
 */
public final class InternalStreams implements AutoCloseable {
  private final Gpu gpu;
  private final Function<Gpu, GpuStream> streams;
  private final Offheap asking = new Offheap(CaptureLibrary.SCRATCH_BYTES);
  private final Side eager;
  private final List<Side> captured = new ArrayList<>(); // as many as there were captures at a time

  /** Creates streams of default priority. */
  public InternalStreams(Gpu gpu) {
    this(gpu, GpuStream::ordinary);
  }

  /**
   * Side streams.
   *
   * @param streams makes each of them
   */
  public InternalStreams(Gpu gpu, Function<Gpu, GpuStream> streams) {
    this.gpu = gpu;
    this.streams = streams;
    this.eager = new Side(gpu, streams);
  }

  /** The stream for launches that are not captured. */
  public Side eager() {
    return eager;
  }

  /**
   * The internal stream beside a stream.
   *
   * @param inGraph whether that is being captured
   */
  public Side of(GpuStream stream, boolean inGraph) {
    return inGraph ? ofCapture(CaptureLibrary.capture(stream.handle(), asking, gpu)) : eager;
  }

  /** The stream that a capture has already; else one that is in none. */
  private Side ofCapture(long number) {
    Side free = null;
    for (Side side : captured) {
      long in = CaptureLibrary.capture(side.handle(), asking, gpu);
      if (in == number) {
        return side;
      }
      if (in == 0) {
        free = side;
      }
    }
    if (free == null) {
      free = new Side(gpu, streams);
      captured.add(free);
    }
    return free;
  }

  @Override
  public void close() {
    CloseAll all = new CloseAll();
    all.take(eager::close);
    captured.forEach(side -> all.take(side::close));
    all.end();
  }

  /** One such stream. */
  public static final class Side implements AutoCloseable {
    private final Gpu gpu;
    private final GpuCleanup made;
    private final GpuStream stream;
    private final long parted;
    private final long joined;

    private Side(Gpu gpu, Function<Gpu, GpuStream> streams) {
      this.gpu = gpu;
      this.made = new GpuCleanup(gpu);
      try {
        stream = streams.apply(gpu);
        made.push(stream::close);
        parted = event();
        joined = event();
      } catch (RuntimeException e) {
        made.run();
        throw e;
      }
    }

    private long event() {
      long event = gpu.context().get(() -> CudaLibrary.createEvent(false, gpu));
      made.push(() -> CudaLibrary.destroyEvent(event, gpu));
      return event;
    }

    public GpuStream stream() {
      return stream;
    }

    /** The CUstream. */
    public long handle() {
      return stream.handle();
    }

    /** Makes later work of this stream wait for the current work of another stream. */
    public void part(GpuStream from) {
      CudaLibrary.recordEvent(parted, from.handle(), gpu);
      CudaLibrary.awaitEvent(stream.handle(), parted, gpu);
    }

    /** Makes later work of another stream wait for the current work of this stream. */
    public void join(GpuStream with) {
      CudaLibrary.recordEvent(joined, stream.handle(), gpu);
      CudaLibrary.awaitEvent(with.handle(), joined, gpu);
    }

    @Override
    public void close() {
      made.run();
    }
  }
}
