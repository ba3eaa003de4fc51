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

  private CaptureLibrary() {}

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
