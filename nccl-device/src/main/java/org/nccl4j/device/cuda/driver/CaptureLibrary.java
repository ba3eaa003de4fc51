package org.nccl4j.device.cuda.driver;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.bind.CudaCapture;
import org.nccl4j.device.bind.NativeLibrary;
import org.nccl4j.device.bind.NativeNames;
import org.nccl4j.device.bind.Offheap;

/** The only caller of {@link CudaCapture}, with results checked. */
public final class CaptureLibrary {
  /** State of an invalidated capture. */
  public static final long SPOILT = -1;

  /** Bytes that a question needs. */
  public static final int SCRATCH_BYTES = 16;

  private static final int STATUS = 8;
  private static final int NONE = 0; // CU_STREAM_CAPTURE_STATUS_NONE
  private static final int ACTIVE = 1; // CU_STREAM_CAPTURE_STATUS_ACTIVE

  private static final CudaCapture CUDA = NativeLibrary.load(CudaCapture.class, NativeNames.CUDA);

  private static final int EXTERNAL = 1; // CU_EVENT_WAIT_EXTERNAL, CU_EVENT_RECORD_EXTERNAL

  private static final int NO_SYNC = 1; // CU_USER_OBJECT_NO_DESTRUCTOR_SYNC
  private static final int MOVE = 1; // CU_GRAPH_USER_OBJECT_MOVE

  private CaptureLibrary() {}

  /**
   * Has the driver call a function once when a graph, what is made of it from now on, and all their
   * launches have ended; or before an error is thrown.
   *
   * @param function address of a C function of one argument, which may not call the driver
   */
  public static void callAtEnd(long graph, long function, long argument, Object place) {
    Offheap out = new Offheap(Long.BYTES);
    CudaResult.check(
        CUDA.cuUserObjectCreate(out.address(), argument, function, 1, NO_SYNC),
        "cuUserObjectCreate",
        place);
    long object = out.getLong(0);
    int code = CUDA.cuGraphRetainUserObject(graph, object, 1, MOVE);
    if (code != 0) {
      CUDA.cuUserObjectRelease(object, 1);
    }
    CudaResult.check(code, "cuGraphRetainUserObject", place);
  }

  /**
   * At each launch of the graph that a stream is captured into, what comes next in the stream waits
   * for what the event was recorded behind last by then.
   */
  public static void awaitAtLaunch(long stream, long event, Object place) {
    CudaResult.check(CUDA.cuStreamWaitEvent(stream, event, EXTERNAL), "cuStreamWaitEvent", place);
  }

  /** Each launch of that graph records the event behind what is in the stream by now. */
  public static void recordAtLaunch(long event, long stream, Object place) {
    CudaResult.check(
        CUDA.cuEventRecordWithFlags(event, stream, EXTERNAL), "cuEventRecordWithFlags", place);
  }

  /**
   * The number of the capture that a stream is in; 0 if it is in none. Of a stream that is in none,
   * as most are, it asks no more: jnr-ffi allocates for a call with more than six arguments.
   */
  @HotPath
  public static long capture(long stream, Offheap scratch, Object place) {
    return CudaLibrary.isCapturing(stream, scratch, place) ? number(stream, scratch, place) : 0;
  }

  private static long number(long stream, Offheap scratch, Object place) {
    long status = scratch.address() + STATUS;
    CudaResult.check(
        CUDA.cuStreamGetCaptureInfo_v2(stream, status, scratch.address(), 0, 0, 0, 0),
        "cuStreamGetCaptureInfo",
        place);
    return switch (scratch.getInt(STATUS)) {
      case NONE -> 0;
      case ACTIVE -> scratch.getLong(0);
      default -> SPOILT;
    };
  }
}
