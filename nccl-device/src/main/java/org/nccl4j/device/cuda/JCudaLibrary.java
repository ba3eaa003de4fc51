package org.nccl4j.device.cuda;

import static jcuda.driver.JCudaDriver.*;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.Optional;
import jcuda.Pointer;
import jcuda.driver.CUcontext;
import jcuda.driver.CUdevice;
import jcuda.driver.CUdevice_P2PAttribute;
import jcuda.driver.CUdeviceptr;
import jcuda.driver.CUevent;
import jcuda.driver.CUfunction;
import jcuda.driver.CUgraph;
import jcuda.driver.CUgraphExec;
import jcuda.driver.CUmodule;
import jcuda.driver.CUresult;
import jcuda.driver.CUstream;
import jcuda.driver.CUstream_flags;

/**
 * The only caller of JCuda: each of its functions that the CUDA device needs, with its result
 * checked. Any thread may call; what needs a current context says so.
 */
final class JCudaLibrary {
  /** Oldest driver whose interface the bindings here speak, as the driver writes versions. */
  static final int OLDEST_DRIVER = 12000;

  private static Optional<String> absence;

  private JCudaLibrary() {}

  /** Loads and initialises once; why it cannot be used, or empty where it can. */
  static synchronized Optional<String> absence() {
    if (absence == null) {
      absence = initialise();
    }
    return absence;
  }

  private static Optional<String> initialise() {
    try {
      JCudaLoading.load();
    } catch (UnsatisfiedLinkError e) {
      return Optional.of(
          String.valueOf(e.getMessage()).contains("libcuda.so.1")
              ? "there is no NVIDIA driver: libcuda.so.1 cannot be loaded; install the driver, or in"
                  + " a container start it with --gpus all"
              : "JCuda's native library cannot be loaded (" + e.getMessage() + ")");
    } catch (IOException e) {
      return Optional.of(
          "JCuda's native library cannot be unpacked into java.io.tmpdir (" + e + ")");
    }
    ClassesAhead.begin(); // the driver takes up to a second to start
    int code = cuInit(0);
    if (code != CUresult.CUDA_SUCCESS) {
      return Optional.of(
          "the driver does not start: cuInit gave %s (%d); nvidia-smi may tell more"
              .formatted(CUresult.stringFor(code), code));
    }
    int version = driverVersion();
    return version >= OLDEST_DRIVER
        ? Optional.empty()
        : Optional.of(
            "the driver is too old: it speaks CUDA %d.%d and 12.0 is needed; update it"
                .formatted(version / 1000, version % 1000 / 10));
  }

  static int driverVersion() {
    int[] version = new int[1];
    CudaResult.check(cuDriverGetVersion(version), "cuDriverGetVersion", "the driver");
    return version[0];
  }

  static int deviceCount() {
    int[] count = new int[1];
    int code = cuDeviceGetCount(count);
    if (code == CUresult.CUDA_ERROR_NO_DEVICE) {
      return 0;
    }
    CudaResult.check(code, "cuDeviceGetCount", "the driver");
    return count[0];
  }

  static CUdevice device(int index) {
    CUdevice device = new CUdevice();
    CudaResult.check(cuDeviceGet(device, index), "cuDeviceGet", "device " + index);
    return device;
  }

  static String deviceName(CUdevice device, int index) {
    byte[] name = new byte[256];
    CudaResult.check(
        cuDeviceGetName(name, name.length, device), "cuDeviceGetName", "device " + index);
    int end = 0;
    while (end < name.length && name[end] != 0) {
      end++;
    }
    return new String(name, 0, end, StandardCharsets.UTF_8);
  }

  static int deviceAttribute(CUdevice device, int attribute, Object place) {
    int[] value = new int[1];
    CudaResult.check(cuDeviceGetAttribute(value, attribute, device), "cuDeviceGetAttribute", place);
    return value[0];
  }

  /** The PCI address as /sys writes it; the driver writes it in capitals. */
  static String pciBusId(CUdevice device, Object place) {
    String[] id = new String[1];
    CudaResult.check(cuDeviceGetPCIBusId(id, 32, device), "cuDeviceGetPCIBusId", place);
    return id[0].trim().toLowerCase(Locale.ROOT);
  }

  static boolean canAccessPeer(CUdevice device, CUdevice peer, Object place) {
    int[] can = new int[1];
    CudaResult.check(cuDeviceCanAccessPeer(can, device, peer), "cuDeviceCanAccessPeer", place);
    return can[0] != 0;
  }

  /** Whether atomics on a peer's memory are the hardware's. */
  static boolean hasPeerAtomics(CUdevice device, CUdevice peer, Object place) {
    int[] has = new int[1];
    int attribute = CUdevice_P2PAttribute.CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
    CudaResult.check(
        cuDeviceGetP2PAttribute(has, attribute, device, peer), "cuDeviceGetP2PAttribute", place);
    return has[0] != 0;
  }

  static CUcontext retainPrimaryContext(CUdevice device, Object place) {
    CUcontext context = new CUcontext();
    CudaResult.check(cuDevicePrimaryCtxRetain(context, device), "cuDevicePrimaryCtxRetain", place);
    return context;
  }

  /** Free and total bytes; in the current context. */
  static long[] memoryInfo(Object place) {
    long[] free = new long[1];
    long[] total = new long[1];
    CudaResult.check(cuMemGetInfo(free, total), "cuMemGetInfo", place);
    return new long[] {free[0], total[0]};
  }

  /** In the current context. */
  static long allocate(long bytes, Object place) {
    CUdeviceptr pointer = new CUdeviceptr();
    CudaResult.check(cuMemAlloc(pointer, bytes), "cuMemAlloc of " + bytes + " bytes", place);
    return Handles.address(pointer);
  }

  static void free(long address, Object place) {
    CudaResult.check(cuMemFree(Handles.device(address)), "cuMemFree", place);
  }

  /** Pinned host memory that every device reaches; in the current context. */
  static long allocateHost(long bytes, Object place) {
    Pointer pointer = new Pointer();
    int flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
    CudaResult.check(cuMemHostAlloc(pointer, bytes, flags), "cuMemHostAlloc", place);
    return Handles.address(pointer);
  }

  static long hostDeviceAddress(long host, Object place) {
    CUdeviceptr pointer = new CUdeviceptr();
    CudaResult.check(
        cuMemHostGetDevicePointer(pointer, Handles.host(host), 0),
        "cuMemHostGetDevicePointer",
        place);
    return Handles.address(pointer);
  }

  static void freeHost(long address, Object place) {
    CudaResult.check(cuMemFreeHost(Handles.host(address)), "cuMemFreeHost", place);
  }

  /** Makes a range of the host's memory one that every device reaches; in the current context. */
  static void registerHost(long address, long bytes, Object place) {
    int flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    CudaResult.check(
        cuMemHostRegister(Handles.host(address), bytes, flags),
        "cuMemHostRegister of " + bytes + " bytes",
        place);
  }

  static void unregisterHost(long address, Object place) {
    CudaResult.check(cuMemHostUnregister(Handles.host(address)), "cuMemHostUnregister", place);
  }

  /** Lets kernels of the current context reach what another's device has from cuMemAlloc. */
  static void enablePeerAccess(CUcontext peer, Object place) {
    int code = cuCtxEnablePeerAccess(peer, 0);
    if (code != CudaResult.PEER_ACCESS_ALREADY_ENABLED) {
      CudaResult.check(code, "cuCtxEnablePeerAccess", place);
    }
  }

  /**
   * In the current context. Returns when the data are there: the driver's call alone may return
   * when they are on their way, and only its default stream would wait for them.
   */
  static void copyToDevice(long target, Pointer source, long bytes, Object place) {
    CudaResult.check(cuMemcpyHtoD(Handles.device(target), source, bytes), "cuMemcpyHtoD", place);
    synchronizeStream(null, place);
  }

  /** In the current context. */
  static void copyToHost(Pointer target, long source, long bytes, Object place) {
    CudaResult.check(cuMemcpyDtoH(target, Handles.device(source), bytes), "cuMemcpyDtoH", place);
  }

  /** Between any two addresses that the driver knows. */
  static void copyAsync(long target, long source, long bytes, CUstream stream, Object place) {
    CudaResult.check(
        cuMemcpyDtoDAsync(Handles.device(target), Handles.device(source), bytes, stream),
        "cuMemcpyDtoDAsync",
        place);
  }

  static void fillAsync(long address, byte value, long bytes, CUstream stream, Object place) {
    CudaResult.check(
        cuMemsetD8Async(Handles.device(address), value, bytes, stream), "cuMemsetD8Async", place);
  }

  /** In the current context; does not wait for the legacy default stream. */
  static CUstream createStream(Object place) {
    CUstream stream = new CUstream();
    CudaResult.check(
        cuStreamCreate(stream, CUstream_flags.CU_STREAM_NON_BLOCKING), "cuStreamCreate", place);
    return stream;
  }

  /** As {@link #createStream}, of the highest priority. */
  static CUstream createUrgentStream(Object place) {
    int[] least = new int[1];
    int[] greatest = new int[1];
    CudaResult.check(
        cuCtxGetStreamPriorityRange(least, greatest), "cuCtxGetStreamPriorityRange", place);
    CUstream stream = new CUstream();
    CudaResult.check(
        cuStreamCreateWithPriority(stream, CUstream_flags.CU_STREAM_NON_BLOCKING, greatest[0]),
        "cuStreamCreateWithPriority",
        place);
    return stream;
  }

  static void destroyStream(CUstream stream, Object place) {
    CudaResult.check(cuStreamDestroy(stream), "cuStreamDestroy", place);
  }

  static void synchronizeStream(CUstream stream, Object place) {
    CudaResult.check(cuStreamSynchronize(stream), "cuStreamSynchronize", place);
  }

  static boolean isStreamIdle(CUstream stream, Object place) {
    return ready(cuStreamQuery(stream), "cuStreamQuery", place);
  }

  static void awaitEvent(CUstream stream, CUevent event, Object place) {
    CudaResult.check(cuStreamWaitEvent(stream, event, 0), "cuStreamWaitEvent", place);
  }

  static boolean isCapturing(CUstream stream, int[] scratch, Object place) {
    CudaResult.check(cuStreamIsCapturing(stream, scratch), "cuStreamIsCapturing", place);
    return scratch[0] != 0;
  }

  /** As {@link #isCapturing}; also so for the legacy stream while it may not be used. */
  static boolean mayBeCapturing(CUstream stream, int[] scratch, Object place) {
    int code = cuStreamIsCapturing(stream, scratch);
    if (code == CUresult.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {
      return true;
    }
    CudaResult.check(code, "cuStreamIsCapturing", place);
    return scratch[0] != 0;
  }

  /** Called on a thread of the driver's when what was launched before has ended. */
  static void launchHostFunction(CUstream stream, Runnable function, Object place) {
    CudaResult.check(
        cuLaunchHostFunc(stream, ignored -> function.run(), null), "cuLaunchHostFunc", place);
  }

  /** In the current context. */
  static CUevent createEvent(boolean timing, Object place) {
    CUevent event = new CUevent();
    int flags = timing ? 0 : 2; // CU_EVENT_DISABLE_TIMING
    CudaResult.check(cuEventCreate(event, flags), "cuEventCreate", place);
    return event;
  }

  static void recordEvent(CUevent event, CUstream stream, Object place) {
    CudaResult.check(cuEventRecord(event, stream), "cuEventRecord", place);
  }

  static boolean isEventComplete(CUevent event, Object place) {
    return ready(cuEventQuery(event), "cuEventQuery", place);
  }

  static void synchronizeEvent(CUevent event, Object place) {
    CudaResult.check(cuEventSynchronize(event), "cuEventSynchronize", place);
  }

  static float elapsedMilliseconds(CUevent start, CUevent end, Object place) {
    float[] milliseconds = new float[1];
    CudaResult.check(cuEventElapsedTime(milliseconds, start, end), "cuEventElapsedTime", place);
    return milliseconds[0];
  }

  static void destroyEvent(CUevent event, Object place) {
    CudaResult.check(cuEventDestroy(event), "cuEventDestroy", place);
  }

  /** In the current context. */
  static CUmodule loadModule(byte[] image, String name, Object place) {
    CUmodule module = new CUmodule();
    CudaResult.check(
        cuModuleLoadData(module, image), "cuModuleLoadData of " + name + ".fatbin", place);
    return module;
  }

  static void unloadModule(CUmodule module, Object place) {
    CudaResult.check(cuModuleUnload(module), "cuModuleUnload", place);
  }

  static CUfunction function(CUmodule module, String name, Object place) {
    CUfunction function = new CUfunction();
    CudaResult.check(
        cuModuleGetFunction(function, module, name), "cuModuleGetFunction of " + name, place);
    return function;
  }

  static int functionAttribute(CUfunction function, int attribute, Object place) {
    int[] value = new int[1];
    CudaResult.check(cuFuncGetAttribute(value, attribute, function), "cuFuncGetAttribute", place);
    return value[0];
  }

  static void beginCapture(CUstream stream, Object place) {
    int threadLocal = 1; // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    CudaResult.check(cuStreamBeginCapture(stream, threadLocal), "cuStreamBeginCapture", place);
  }

  /**
   * Changes which calls the driver forbids the calling thread while streams are captured.
   *
   * @param mode in and out: the new one, then the one before
   */
  static void exchangeCaptureMode(int[] mode) {
    CudaResult.check(
        cuThreadExchangeStreamCaptureMode(mode),
        "cuThreadExchangeStreamCaptureMode",
        "the calling thread");
  }

  static CUgraph endCapture(CUstream stream, Object place) {
    CUgraph graph = new CUgraph();
    CudaResult.check(cuStreamEndCapture(stream, graph), "cuStreamEndCapture", place);
    return graph;
  }

  static CUgraphExec instantiate(CUgraph graph, Object place) {
    CUgraphExec executable = new CUgraphExec();
    CudaResult.check(cuGraphInstantiate(executable, graph, 0), "cuGraphInstantiate", place);
    return executable;
  }

  static void launchGraph(CUgraphExec executable, CUstream stream, Object place) {
    CudaResult.check(cuGraphLaunch(executable, stream), "cuGraphLaunch", place);
  }

  static void destroyGraph(CUgraphExec executable, CUgraph graph, Object place) {
    if (executable != null) {
      CudaResult.check(cuGraphExecDestroy(executable), "cuGraphExecDestroy", place);
    }
    CudaResult.check(cuGraphDestroy(graph), "cuGraphDestroy", place);
  }

  private static boolean ready(int code, String call, Object place) {
    if (code == CudaResult.NOT_READY) {
      return false;
    }
    CudaResult.check(code, call, place);
    return true;
  }
}
