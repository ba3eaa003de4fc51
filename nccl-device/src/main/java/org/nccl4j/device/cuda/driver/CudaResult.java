package org.nccl4j.device.cuda.driver;

import jcuda.driver.CUresult;
import org.nccl4j.device.CudaException;

/** The driver's result codes: which mean an error, and what to do about it. */
public final class CudaResult {
  public static final int NOT_READY = CUresult.CUDA_ERROR_NOT_READY;
  static final int PEER_ACCESS_ALREADY_ENABLED = CUresult.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  private static final int OUT_OF_MEMORY = CUresult.CUDA_ERROR_OUT_OF_MEMORY;

  private CudaResult() {}

  /**
   * Throws unless the code is success.
   *
   * @param call the driver's function
   * @param place what it was called for, named in the message
   */
  static void check(int code, String call, Object place) {
    if (code != CUresult.CUDA_SUCCESS) {
      throw error(code, call, place);
    }
  }

  /** The error that a code stands for. */
  static CudaException error(int code, String call, Object place) {
    return new CudaException(
        "%s for %s failed with %s (%d)".formatted(call, place, ResultNames.of(code), code),
        remedy(code),
        code);
  }

  /** True if the driver said that it cannot, or may not, do something at all. */
  public static boolean isRefusal(CudaException e) {
    return e.result() == CUresult.CUDA_ERROR_NOT_SUPPORTED
        || e.result() == CUresult.CUDA_ERROR_NOT_PERMITTED;
  }

  /** True if the driver had no memory for a call. */
  static boolean isOutOfMemory(CudaException e) {
    return e.result() == OUT_OF_MEMORY;
  }

  /** True if the error ends a context: each later call in it fails, and nothing in it runs. */
  public static boolean isContextLost(CudaException e) {
    return switch (e.result()) {
      case CUresult.CUDA_ERROR_ECC_UNCORRECTABLE,
          CUresult.CUDA_ERROR_NVLINK_UNCORRECTABLE,
          CUresult.CUDA_ERROR_ILLEGAL_ADDRESS,
          CUresult.CUDA_ERROR_LAUNCH_TIMEOUT,
          CUresult.CUDA_ERROR_CONTEXT_IS_DESTROYED,
          CUresult.CUDA_ERROR_ASSERT,
          CUresult.CUDA_ERROR_HARDWARE_STACK_ERROR,
          CUresult.CUDA_ERROR_ILLEGAL_INSTRUCTION,
          CUresult.CUDA_ERROR_MISALIGNED_ADDRESS,
          CUresult.CUDA_ERROR_INVALID_ADDRESS_SPACE,
          CUresult.CUDA_ERROR_INVALID_PC,
          CUresult.CUDA_ERROR_LAUNCH_FAILED ->
          true;
      default -> false;
    };
  }

  private static String remedy(int code) {
    return switch (code) {
      case OUT_OF_MEMORY ->
          "free device memory, or use fewer or smaller buffers; nvidia-smi shows"
              + " who holds the memory";
      case CUresult.CUDA_ERROR_INVALID_DEVICE ->
          "use a device number that nvidia-smi -L lists, and" + " look at CUDA_VISIBLE_DEVICES";
      case CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU, CUresult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION ->
          "build the kernels for this GPU: mvn package -Dcuda.architectures=<its compute"
              + " capability, such as 90>";
      case CUresult.CUDA_ERROR_ILLEGAL_ADDRESS, CUresult.CUDA_ERROR_LAUNCH_FAILED ->
          "a kernel touched memory that it may not; run compute-sanitizer, and restart the process,"
              + " since its CUDA context is lost";
      case CUresult.CUDA_ERROR_NOT_PERMITTED, CUresult.CUDA_ERROR_NOT_SUPPORTED ->
          "this driver or GPU cannot do it; nccl doctor shows what works on this machine";
      case CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ->
          "between beginCapture and endCapture only launch: do not synchronize, ask about or close"
              + " the stream; capture again from the beginning";
      case CUresult.CUDA_ERROR_DEINITIALIZED -> "use the device before the process ends";
      default -> "look the code up in the CUDA driver API's CUresult";
    };
  }
}
