package org.nccl4j.device.cuda.driver;

import java.util.function.Supplier;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.support.PerThread;

/**
 * A device's primary context, which the CUDA runtime, PyTorch and others share. Retained for the
 * life of the process. Any thread may call.
 */
public final class CudaContext {
  private static final PerThread<Offheap> SCRATCH = new PerThread<>(() -> new Offheap(8));

  private final long handle;

  CudaContext(int device, Object place) {
    handle = CudaLibrary.retainPrimaryContext(device, place);
  }

  /** The CUcontext. */
  public long handle() {
    return handle;
  }

  /**
   * Runs something with this context current, and restores the thread's own after it. Its calls do
   * not disturb streams that this or other threads capture.
   */
  public void run(Runnable action) {
    get(
        () -> {
          action.run();
          return null;
        });
  }

  /** Computes something, likewise. */
  public <T> T get(Supplier<T> action) {
    long before = enter();
    try {
      return relaxed(action);
    } finally {
      leave(before);
    }
  }

  /**
   * Computes something that has nothing to do with streams that are being captured. Without this
   * the driver would take an allocation, say, for a mistake in the capture of this thread, or of
   * any thread that began one in the global mode, and spoil it.
   */
  private static <T> T relaxed(Supplier<T> action) {
    int before = CudaLibrary.exchangeCaptureMode(CudaLibrary.RELAXED);
    try {
      return action.get();
    } finally {
      CudaLibrary.exchangeCaptureMode(before);
    }
  }

  /** Makes this context current; the thread's former one, for {@link #leave}. Not allocating. */
  public long enter() {
    return enter(SCRATCH.get());
  }

  /**
   * Enters as {@link #enter()} does, without looking for the thread's own scratch memory.
   *
   * @param scratch 8 bytes that no other thread uses at the same time
   */
  @HotPath
  public long enter(Offheap scratch) {
    long before = DriverLibrary.currentContext(scratch);
    if (before != handle) {
      DriverLibrary.setCurrentContext(handle);
    }
    return before;
  }

  /** Restores what was current before {@link #enter}. */
  public void leave(long before) {
    if (before != handle) {
      DriverLibrary.setCurrentContext(before);
    }
  }
}
