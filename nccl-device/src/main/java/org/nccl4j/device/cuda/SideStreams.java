package org.nccl4j.device.cuda;

/**
 * Streams of a communicator beside the user's, for parts of an operation that may go at the same
 * time as the others. While a graph is captured another is used than otherwise: it belongs to that
 * capture until its end, and launches elsewhere must not get into it. Used by the thread that
 * launches.
 */
final class SideStreams implements AutoCloseable {
  private final Side eager;
  private final Side captured;

  SideStreams(CudaDevice device) {
    eager = new Side(device);
    try {
      captured = new Side(device);
    } catch (RuntimeException e) {
      eager.close();
      throw e;
    }
  }

  /** The one for launches that are captured, or for others. */
  Side of(boolean inGraph) {
    return inGraph ? captured : eager;
  }

  @Override
  public void close() {
    eager.close();
    captured.close();
  }

  /** One such stream. */
  static final class Side implements AutoCloseable {
    private final CudaDevice device;
    private final Undo made;
    private final CudaStream stream;
    private final long parted;
    private final long joined;

    private Side(CudaDevice device) {
      this.device = device;
      this.made = new Undo(device);
      try {
        stream = (CudaStream) device.createStream();
        made.push(stream::close);
        parted = event();
        joined = event();
      } catch (RuntimeException e) {
        made.run();
        throw e;
      }
    }

    private long event() {
      long event = device.context().get(() -> CudaLibrary.createEvent(false, device));
      made.push(() -> CudaLibrary.destroyEvent(event, device));
      return event;
    }

    CudaStream stream() {
      return stream;
    }

    /** The CUstream. */
    long handle() {
      return stream.handle();
    }

    /** What is put here from now on comes after what is in another stream by now. */
    void part(CudaStream from) {
      CudaLibrary.recordEvent(parted, from.handle(), device);
      CudaLibrary.awaitEvent(stream.handle(), parted, device);
    }

    /** What is put into another stream from now on comes after what is here by now. */
    void join(CudaStream with) {
      CudaLibrary.recordEvent(joined, stream.handle(), device);
      CudaLibrary.awaitEvent(with.handle(), joined, device);
    }

    @Override
    public void close() {
      made.run();
    }
  }
}
