package org.nccl4j.device.cuda;

import java.util.function.Supplier;
import jcuda.driver.CUcontext;
import jcuda.driver.CUdevice;

/**
 * A device's primary context, which the CUDA runtime, PyTorch and others share. Retained for the
 * life of the process. Any thread may call.
 */
final class CudaContext {
  private static final ThreadLocal<Offheap> SCRATCH = ThreadLocal.withInitial(() -> new Offheap(8));

  private final CUcontext context; // keeps the object behind the handle
  private final long handle;

  CudaContext(CUdevice device, Object place) {
    context = JCudaLibrary.retainPrimaryContext(device, place);
    handle = Handles.address(context);
  }

  /** As JCuda wants it. */
  CUcontext context() {
    return context;
  }

  /** Runs something with this context current, and restores the thread's own after it. */
  void run(Runnable action) {
    long before = enter();
    try {
      action.run();
    } finally {
      leave(before);
    }
  }

  /** Computes something with this context current, and restores the thread's own after it. */
  <T> T get(Supplier<T> action) {
    long before = enter();
    try {
      return action.get();
    } finally {
      leave(before);
    }
  }

  /** Makes this context current; the thread's former one, for {@link #leave}. Not allocating. */
  long enter() {
    long before = DriverLibrary.currentContext(SCRATCH.get());
    if (before != handle) {
      DriverLibrary.setCurrentContext(handle);
    }
    return before;
  }

  /** Restores what was current before {@link #enter}. */
  void leave(long before) {
    if (before != handle) {
      DriverLibrary.setCurrentContext(before);
    }
  }
}
