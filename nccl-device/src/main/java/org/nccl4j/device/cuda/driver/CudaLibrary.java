package org.nccl4j.device.cuda.driver;

import static org.nccl4j.device.cuda.driver.DriverLibrary.CUDA;

import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.UUID;
import jcuda.driver.CUdevice_P2PAttribute;
import jcuda.driver.CUresult;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.support.PerThread;

/**
 * The driver's functions for devices, memory, modules, streams, events and graphs, each with its
 * result checked. Handles and addresses are plain longs. To be touched only after {@link
 * DriverStart#absence()} answered that there is none. Any thread may call; methods that need a
 * current context say so.
 */
public final class CudaLibrary {
  private static final int NAME_BYTES = 256;
  private static final int UUID_BYTES = 16;
  private static final int PORTABLE_AND_MAPPED = 3; // CU_MEMHOSTALLOC_..., CU_MEMHOSTREGISTER_...
  private static final int NON_BLOCKING = 1; // CU_STREAM_NON_BLOCKING
  private static final int DISABLE_TIMING = 2; // CU_EVENT_DISABLE_TIMING
  private static final int THREAD_LOCAL = 1; // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
  static final int RELAXED = 2; // CU_STREAM_CAPTURE_MODE_RELAXED

  /** The driver's answers to this thread; read before the next question. */
  private static final PerThread<Offheap> ANSWER = new PerThread<>(() -> new Offheap(NAME_BYTES));

  private CudaLibrary() {}

  public static int driverVersion() {
    Offheap out = ANSWER.get();
    CudaResult.check(CUDA.cuDriverGetVersion(out.address()), "cuDriverGetVersion", "the driver");
    return out.getInt(0);
  }

  public static int deviceCount() {
    Offheap out = ANSWER.get();
    int code = CUDA.cuDeviceGetCount(out.address());
    if (code == CUresult.CUDA_ERROR_NO_DEVICE) {
      return 0;
    }
    CudaResult.check(code, "cuDeviceGetCount", "the driver");
    return out.getInt(0);
  }

  public static int device(int index) {
    Offheap out = ANSWER.get();
    CudaResult.check(CUDA.cuDeviceGet(out.address(), index), "cuDeviceGet", "device " + index);
    return out.getInt(0);
  }

  public static String deviceName(int device, int index) {
    Offheap out = ANSWER.get();
    CudaResult.check(
        CUDA.cuDeviceGetName(out.address(), NAME_BYTES, device),
        "cuDeviceGetName",
        "device " + index);
    return out.getString();
  }

  static int deviceAttribute(int device, int attribute, Object place) {
    Offheap out = ANSWER.get();
    CudaResult.check(
        CUDA.cuDeviceGetAttribute(out.address(), attribute, device), "cuDeviceGetAttribute", place);
    return out.getInt(0);
  }

  /** The PCI address as /sys writes it; the driver writes it in capitals. */
  public static String pciBusId(int device, Object place) {
    Offheap out = ANSWER.get();
    CudaResult.check(
        CUDA.cuDeviceGetPCIBusId(out.address(), NAME_BYTES, device), "cuDeviceGetPCIBusId", place);
    return out.getString().trim().toLowerCase(Locale.ROOT);
  }

  /** The UUID of an instance of a GPU (MIG); empty for a whole one, or a driver that knows none. */
  static Optional<String> instance(int device) {
    Offheap gpu = new Offheap(UUID_BYTES);
    Offheap own = new Offheap(UUID_BYTES);
    try {
      boolean known =
          CUDA.cuDeviceGetUuid(gpu.address(), device) == 0
              && CUDA.cuDeviceGetUuid_v2(own.address(), device) == 0;
      return known && !gpu.bytes().equals(own.bytes())
          ? Optional.of(new UUID(own.bytes().getLong(0), own.bytes().getLong(8)).toString())
          : Optional.empty();
    } catch (UnsatisfiedLinkError e) {
      return Optional.empty(); // before CUDA 11.4
    }
  }

  static boolean canAccessPeer(int device, int peer, Object place) {
    Offheap out = ANSWER.get();
    CudaResult.check(
        CUDA.cuDeviceCanAccessPeer(out.address(), device, peer), "cuDeviceCanAccessPeer", place);
    return out.getInt(0) != 0;
  }

  /** True if atomics on a peer's memory are the hardware's. */
  static boolean hasPeerAtomics(int device, int peer, Object place) {
    Offheap out = ANSWER.get();
    int attribute = CUdevice_P2PAttribute.CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
    CudaResult.check(
        CUDA.cuDeviceGetP2PAttribute(out.address(), attribute, device, peer),
        "cuDeviceGetP2PAttribute",
        place);
    return out.getInt(0) != 0;
  }

  static long retainPrimaryContext(int device, Object place) {
    Offheap out = ANSWER.get();
    CudaResult.check(
        CUDA.cuDevicePrimaryCtxRetain(out.address(), device), "cuDevicePrimaryCtxRetain", place);
    return out.getLong(0);
  }

  /** Free and total bytes; in the current context. */
  static long[] memoryInfo(Object place) {
    Offheap out = ANSWER.get();
    CudaResult.check(
        CUDA.cuMemGetInfo_v2(out.address(), out.address() + Long.BYTES), "cuMemGetInfo", place);
    return new long[] {out.getLong(0), out.getLong(Long.BYTES)};
  }

  /**
   * Memory of the current context's device.
   *
   * @param place the device, whose memory that is being freed is awaited if need be
   */
  public static long allocate(long bytes, Object place) {
    return DeferredFree.allocating(
        place,
        () -> {
          Offheap out = ANSWER.get();
          int code = CUDA.cuMemAlloc_v2(out.address(), bytes);
          CudaResult.check(code, "cuMemAlloc of " + bytes + " bytes", place);
          return out.getLong(0);
        });
  }

  public static void free(long address, Object place) {
    CudaResult.check(CUDA.cuMemFree_v2(address), "cuMemFree", place);
  }

  /** Pinned host memory that every device reaches; in the current context. */
  public static long allocateHost(long bytes, Object place) {
    Offheap out = ANSWER.get();
    CudaResult.check(
        CUDA.cuMemHostAlloc(out.address(), bytes, PORTABLE_AND_MAPPED), "cuMemHostAlloc", place);
    return out.getLong(0);
  }

  public static long hostDeviceAddress(long host, Object place) {
    Offheap out = ANSWER.get();
    CudaResult.check(
        CUDA.cuMemHostGetDevicePointer_v2(out.address(), host, 0),
        "cuMemHostGetDevicePointer",
        place);
    return out.getLong(0);
  }

  public static void freeHost(long address, Object place) {
    CudaResult.check(CUDA.cuMemFreeHost(address), "cuMemFreeHost", place);
  }

  /** Makes a range of the host's memory one that every device reaches; in the current context. */
  public static void registerHost(long address, long bytes, Object place) {
    CudaResult.check(
        CUDA.cuMemHostRegister_v2(address, bytes, PORTABLE_AND_MAPPED),
        "cuMemHostRegister of " + bytes + " bytes",
        place);
  }

  public static void unregisterHost(long address, Object place) {
    CudaResult.check(CUDA.cuMemHostUnregister(address), "cuMemHostUnregister", place);
  }

  /** Lets kernels of the current context reach what another's device has from cuMemAlloc. */
  public static void enablePeerAccess(long peer, Object place) {
    int code = CUDA.cuCtxEnablePeerAccess(peer, 0);
    if (code != CudaResult.PEER_ACCESS_ALREADY_ENABLED) {
      CudaResult.check(code, "cuCtxEnablePeerAccess", place);
    }
  }

  /** In the current context; the data are there once the stream has come to the copy. */
  static void copyToDevice(long target, long source, long bytes, long stream, Object place) {
    CudaResult.check(
        CUDA.cuMemcpyHtoDAsync_v2(target, source, bytes, stream), "cuMemcpyHtoDAsync", place);
  }

  /** In the current context; the data are there once the stream has come to the copy. */
  static void copyToHost(long target, long source, long bytes, long stream, Object place) {
    CudaResult.check(
        CUDA.cuMemcpyDtoHAsync_v2(target, source, bytes, stream), "cuMemcpyDtoHAsync", place);
  }

  /** Between any two addresses that the driver knows. */
  public static void copyAsync(long target, long source, long bytes, long stream, Object place) {
    CudaResult.check(
        CUDA.cuMemcpyDtoDAsync_v2(target, source, bytes, stream), "cuMemcpyDtoDAsync", place);
  }

  static void fillAsync(long address, byte value, long bytes, long stream, Object place) {
    CudaResult.check(
        CUDA.cuMemsetD8Async(address, value & 0xff, bytes, stream), "cuMemsetD8Async", place);
  }

  /** In the current context; does not wait for the legacy default stream. */
  public static long createStream(Object place) {
    Offheap out = ANSWER.get();
    CudaResult.check(CUDA.cuStreamCreate(out.address(), NON_BLOCKING), "cuStreamCreate", place);
    return out.getLong(0);
  }

  /** Same as {@link #createStream}, with the highest priority. */
  public static long createUrgentStream(Object place) {
    return createStreamBelow(0, place);
  }

  /**
   * Same as {@link #createStream}, with the priority below the highest, but not below the default.
   */
  public static long createWaitingStream(Object place) {
    return createStreamBelow(1, place);
  }

  private static long createStreamBelow(int steps, Object place) {
    Offheap out = ANSWER.get();
    CudaResult.check(
        CUDA.cuCtxGetStreamPriorityRange(out.address(), out.address() + Integer.BYTES),
        "cuCtxGetStreamPriorityRange",
        place);
    int least = out.getInt(0); // priorities are numbers that fall
    int priority = Math.min(least, out.getInt(Integer.BYTES) + steps);
    CudaResult.check(
        CUDA.cuStreamCreateWithPriority(out.address(), NON_BLOCKING, priority),
        "cuStreamCreateWithPriority",
        place);
    return out.getLong(0);
  }

  public static void destroyStream(long stream, Object place) {
    CudaResult.check(CUDA.cuStreamDestroy_v2(stream), "cuStreamDestroy", place);
  }

  /** The CUcontext of a stream that the program created. */
  public static long contextOf(long stream, Object place) {
    Offheap out = ANSWER.get();
    CudaResult.check(CUDA.cuStreamGetCtx(stream, out.address()), "cuStreamGetCtx", place);
    return out.getLong(0);
  }

  /**
   * A stream's number, which no other stream of the process ever has, in the current context. Its
   * handle may be another stream's after its end. The driver refuses the question, and spoils the
   * capture, while a stream is captured: this one, or another one where the thread's mode forbids
   * it.
   *
   * @return 0 while the stream is captured
   */
  @HotPath
  public static long streamId(long stream, Object place) {
    Offheap out = ANSWER.get();
    if (isCapturing(stream, out, place)) {
      return 0;
    }
    int before = exchangeCaptureMode(RELAXED, out);
    try {
      CudaResult.check(CUDA.cuStreamGetId(stream, out.address()), "cuStreamGetId", place);
      return out.getLong(0);
    } finally {
      exchangeCaptureMode(before, out);
    }
  }

  /** The CUdevice of a context. */
  public static int deviceOfContext(long context, Object place) {
    Offheap out = ANSWER.get();
    long before = DriverLibrary.currentContext(out);
    DriverLibrary.setCurrentContext(context);
    try {
      CudaResult.check(CUDA.cuCtxGetDevice(out.address()), "cuCtxGetDevice", place);
      return out.getInt(0);
    } finally {
      DriverLibrary.setCurrentContext(before);
    }
  }

  public static void synchronizeStream(long stream, Object place) {
    CudaResult.check(CUDA.cuStreamSynchronize(stream), "cuStreamSynchronize", place);
  }

  /**
   * Waits until all that was launched in the current context has ended.
   *
   * @return false if that cannot be waited for, because a stream is being captured
   */
  public static boolean synchronizeContext(Object place) {
    int code = CUDA.cuCtxSynchronize();
    if (code >= CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
        && code <= CUresult.CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD) {
      return false;
    }
    CudaResult.check(code, "cuCtxSynchronize", place);
    return true;
  }

  public static boolean isStreamIdle(long stream, Object place) {
    return ready(CUDA.cuStreamQuery(stream), "cuStreamQuery", place);
  }

  @HotPath
  public static void awaitEvent(long stream, long event, Object place) {
    CudaResult.check(CUDA.cuStreamWaitEvent(stream, event, 0), "cuStreamWaitEvent", place);
  }

  @HotPath
  public static boolean isCapturing(long stream, Object place) {
    return isCapturing(stream, ANSWER.get(), place);
  }

  /**
   * Asks without looking for the thread's own memory for answers.
   *
   * @param out 4 bytes that no other thread uses at the same time
   */
  @HotPath
  static boolean isCapturing(long stream, Offheap out, Object place) {
    CudaResult.check(CUDA.cuStreamIsCapturing(stream, out.address()), "cuStreamIsCapturing", place);
    return out.getInt(0) != 0;
  }

  /**
   * Same as {@link #isCapturing}, and also true for the legacy stream while it must not be used.
   */
  @HotPath
  public static boolean mayBeCapturing(long stream, Object place) {
    Offheap out = ANSWER.get();
    int code = CUDA.cuStreamIsCapturing(stream, out.address());
    if (code == CUresult.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {
      return true;
    }
    CudaResult.check(code, "cuStreamIsCapturing", place);
    return out.getInt(0) != 0;
  }

  /**
   * Has a stream call a function when what was launched before has ended, on a thread of the
   * driver's.
   *
   * @param function address of a C function of one argument
   */
  public static void launchHostFunction(long stream, long function, long argument, Object place) {
    CudaResult.check(CUDA.cuLaunchHostFunc(stream, function, argument), "cuLaunchHostFunc", place);
  }

  /** In the current context. */
  public static long createEvent(boolean timing, Object place) {
    Offheap out = ANSWER.get();
    CudaResult.check(
        CUDA.cuEventCreate(out.address(), timing ? 0 : DISABLE_TIMING), "cuEventCreate", place);
    return out.getLong(0);
  }

  @HotPath
  public static void recordEvent(long event, long stream, Object place) {
    CudaResult.check(CUDA.cuEventRecord(event, stream), "cuEventRecord", place);
  }

  @HotPath
  public static boolean isEventComplete(long event, Object place) {
    return ready(CUDA.cuEventQuery(event), "cuEventQuery", place);
  }

  public static void synchronizeEvent(long event, Object place) {
    CudaResult.check(CUDA.cuEventSynchronize(event), "cuEventSynchronize", place);
  }

  /** The time between two events; NaN while a stream has not reached one of them. */
  public static float elapsedMilliseconds(long start, long end, Object place) {
    Offheap out = ANSWER.get();
    int code = CUDA.cuEventElapsedTime(out.address(), start, end);
    return ready(code, "cuEventElapsedTime", place)
        ? Float.intBitsToFloat(out.getInt(0))
        : Float.NaN;
  }

  public static void destroyEvent(long event, Object place) {
    CudaResult.check(CUDA.cuEventDestroy_v2(event), "cuEventDestroy", place);
  }

  /** In the current context. */
  public static long loadModule(byte[] image, String name, Object place) {
    Offheap out = ANSWER.get();
    int code = Offheap.of(image).lend(at -> CUDA.cuModuleLoadData(out.address(), at));
    CudaResult.check(code, "cuModuleLoadData of " + name, place);
    return out.getLong(0);
  }

  /** Unloads a module, none of whose kernels runs. */
  public static void unloadModule(long module, Object place) {
    CudaResult.check(CUDA.cuModuleUnload(module), "cuModuleUnload", place);
  }

  public static long function(long module, String name, Object place) {
    Offheap out = ANSWER.get();
    byte[] bytes = (name + "\0").getBytes(StandardCharsets.US_ASCII);
    int code = Offheap.of(bytes).lend(at -> CUDA.cuModuleGetFunction(out.address(), module, at));
    CudaResult.check(code, "cuModuleGetFunction of " + name, place);
    return out.getLong(0);
  }

  /** Bytes of a variable of a module; empty if the driver finds none of that name. */
  public static OptionalLong variableBytes(long module, String name, Object place) {
    Offheap out = ANSWER.get();
    byte[] text = (name + "\0").getBytes(StandardCharsets.US_ASCII);
    int code =
        Offheap.of(text)
            .lend(at -> CUDA.cuModuleGetGlobal_v2(out.address(), out.address() + 8, module, at));
    if (code == CUresult.CUDA_ERROR_NOT_FOUND) {
      return OptionalLong.empty();
    }
    CudaResult.check(code, "cuModuleGetGlobal of " + name, place);
    return OptionalLong.of(out.getLong(8));
  }

  public static int functionAttribute(long function, int attribute, Object place) {
    Offheap out = ANSWER.get();
    CudaResult.check(
        CUDA.cuFuncGetAttribute(out.address(), attribute, function), "cuFuncGetAttribute", place);
    return out.getInt(0);
  }

  public static void setFunctionAttribute(long function, int attribute, int value, Object place) {
    CudaResult.check(
        CUDA.cuFuncSetAttribute(function, attribute, value), "cuFuncSetAttribute", place);
  }

  public static void beginCapture(long stream, Object place) {
    CudaResult.check(
        CUDA.cuStreamBeginCapture_v2(stream, THREAD_LOCAL), "cuStreamBeginCapture", place);
  }

  /**
   * Changes which calls the driver forbids the calling thread while streams are captured.
   *
   * @return the mode before
   */
  static int exchangeCaptureMode(int mode) {
    return exchangeCaptureMode(mode, ANSWER.get());
  }

  /** The same without looking for the thread's own memory for answers. */
  @HotPath
  private static int exchangeCaptureMode(int mode, Offheap inOut) {
    inOut.putInt(0, mode);
    CudaResult.check(
        CUDA.cuThreadExchangeStreamCaptureMode(inOut.address()),
        "cuThreadExchangeStreamCaptureMode",
        "the calling thread");
    return inOut.getInt(0);
  }

  public static long endCapture(long stream, Object place) {
    Offheap out = ANSWER.get();
    CudaResult.check(CUDA.cuStreamEndCapture(stream, out.address()), "cuStreamEndCapture", place);
    return out.getLong(0);
  }

  public static long instantiate(long graph, Object place) {
    Offheap out = ANSWER.get();
    CudaResult.check(
        CUDA.cuGraphInstantiateWithFlags(out.address(), graph, 0), "cuGraphInstantiate", place);
    return out.getLong(0);
  }

  @HotPath
  public static void launchGraph(long executable, long stream, Object place) {
    CudaResult.check(CUDA.cuGraphLaunch(executable, stream), "cuGraphLaunch", place);
  }

  /**
   * Gives up a graph.
   *
   * @param executable what was instantiated of it; 0 for nothing
   */
  public static void destroyGraph(long executable, long graph, Object place) {
    if (executable != 0) {
      CudaResult.check(CUDA.cuGraphExecDestroy(executable), "cuGraphExecDestroy", place);
    }
    CudaResult.check(CUDA.cuGraphDestroy(graph), "cuGraphDestroy", place);
  }

  private static boolean ready(int code, String call, Object place) {
    if (code == CudaResult.NOT_READY) {
      return false;
    }
    CudaResult.check(code, call, place);
    return true;
  }
}
