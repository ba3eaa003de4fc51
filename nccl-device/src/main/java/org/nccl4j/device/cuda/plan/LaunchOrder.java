package org.nccl4j.device.cuda.plan;

import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.stream.GpuStream;

/**
 * One order for what several communicators launch on a GPU, each in a stream of its own: a launch
 * waits for the one before. Without it, kernels of three communicators that each take half of a
 * GPU's multiprocessors can be at work in pairs that differ from GPU to GPU, each waiting for ranks
 * that find no room.
 *
 * <p>A captured launch neither follows nor is followed, since a capture may not wait for what is
 * outside.
 */
public final class LaunchOrder {
  private final Gpu gpu;
  private int members;
  private long behind; // event of the last launch; exists while there are members
  private GpuStream last; // stream of the last launch; null before the first

  public LaunchOrder(Gpu gpu) {
    this.gpu = gpu;
  }

  /** A communicator whose launches will be in the order. */
  public synchronized void join() {
    if (members == 0) {
      behind = gpu.context().get(() -> CudaLibrary.createEvent(false, gpu));
    }
    members++;
  }

  /** A communicator that launches no more. */
  public synchronized void leave() {
    members--;
    if (members == 0) {
      CudaLibrary.destroyEvent(behind, gpu);
      behind = 0;
      last = null;
    }
  }

  /** Puts a plan into a stream, behind the last launch, in the current context. Locks. */
  public synchronized void launch(CudaPlan plan, long send, long recv, GpuStream into) {
    follow(into);
    plan.launch(send, recv, into);
    launched(into);
  }

  /** Has what comes next in a stream wait for the last launch. */
  private void follow(GpuStream into) {
    if (last != null && !into.isSameAs(last) && !isCapturing(into)) {
      CudaLibrary.awaitEvent(into.handle(), behind, gpu);
    }
  }

  /** Records the stream's current work. The next launch waits for it. */
  private void launched(GpuStream into) {
    if (!isCapturing(into)) {
      CudaLibrary.recordEvent(behind, into.handle(), gpu);
      last = into;
    }
  }

  private boolean isCapturing(GpuStream stream) {
    return CudaLibrary.isCapturing(stream.handle(), gpu);
  }
}
