package org.nccl4j.device.cuda;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.driver.CaptureLibrary;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.driver.Gpu;

/**
 * Times the driver's calls of a launch on the first GPU, in nanoseconds of the calling thread:
 * kernels that do nothing, by the size of their arguments and by the attributes of the launch, and
 * the calls that go with launches into streams of the user's. What a warm operation takes beyond
 * these is this library's.
 */
final class LaunchTimes {
  private static final int CALLS = 200; // far fewer than a stream takes without blocking
  private static final int ROUNDS = 300;
  private static final int COPY_BYTES = 4096;
  private static final int CONFIG_BYTES = 56; // CUlaunchConfig
  private static final int ATTRIBUTE_BYTES = 72; // CUlaunchAttribute
  private static final int DOMAIN = 10; // CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN
  private static final int EARLY = 6; // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION

  private final Gpu gpu;
  private final long stream;
  private final DeviceMemory memory;
  private final Offheap scratch = new Offheap(CaptureLibrary.SCRATCH_BYTES);

  private LaunchTimes(CudaDevice device) {
    gpu = device.gpu();
    stream = ((CudaStream) device.createStream()).handle();
    memory = device.allocate(2 * COPY_BYTES);
  }

  public static void main(String[] arguments) {
    CudaDevice device = CudaDevices.probe().device(0);
    device.useOnThisThread();
    LaunchTimes times = new LaunchTimes(device);
    times.gpu.context().run(times::all);
    System.exit(0);
  }

  private void all() {
    line("cuCtxGetCurrent", () -> DriverLibrary.currentContext(scratch));
    long event = CudaLibrary.createEvent(false, gpu);
    line("cuEventRecord", () -> CudaLibrary.recordEvent(event, stream, gpu));
    line("cuStreamIsCapturing", () -> CudaLibrary.mayBeCapturing(stream, gpu));
    line("the query of a launch for a capture", () -> CaptureLibrary.capture(stream, scratch, gpu));
    long from = memory.address();
    long to = from + COPY_BYTES;
    line(
        "cuMemcpyAsync, %d bytes".formatted(COPY_BYTES),
        () -> DriverLibrary.copyAsync(to, from, COPY_BYTES, stream, gpu));
    for (int bytes : new int[] {16, 128, 408, 1024, 1808, 3416}) {
      long kernel = kernel(bytes);
      for (int[] attributes : new int[][] {{}, {DOMAIN}, {DOMAIN, EARLY}}) {
        Offheap config = config(bytes, attributes);
        long parameters = config.address() + CONFIG_BYTES + 2 * ATTRIBUTE_BYTES;
        String what =
            "cuLaunchKernelEx, %4d bytes, attributes %d".formatted(bytes, attributes.length);
        line(what, () -> DriverLibrary.launch(config.address(), kernel, parameters, gpu));
      }
    }
  }

  private void line(String what, Runnable call) {
    List<Double> nanos = new ArrayList<>();
    for (int round = 0; round < ROUNDS; round++) {
      long begin = System.nanoTime();
      for (int i = 0; i < CALLS; i++) {
        call.run();
      }
      nanos.add((System.nanoTime() - begin) / (double) CALLS);
      CudaLibrary.synchronizeStream(stream, gpu);
    }
    List<Double> warm = nanos.subList(ROUNDS / 3, ROUNDS);
    Collections.sort(warm);
    System.out.printf(
        Locale.ROOT,
        "%-44s least %6.0f ns, median %6.0f ns%n",
        what,
        warm.get(0),
        warm.get(warm.size() / 2));
  }

  /** A kernel with arguments of a size, which ends at once. */
  private long kernel(int bytes) {
    String ptx =
        ".version 7.8%n.target sm_70%n.address_size 64%n".formatted()
            + ".visible .entry nothing(.param .align 8 .b8 a[%d]) { ret; }%n\0".formatted(bytes);
    long module = CudaLibrary.loadModule(ptx.getBytes(StandardCharsets.US_ASCII), "nothing", gpu);
    return CudaLibrary.function(module, "nothing", gpu);
  }

  /** The launch of a block of a warp: a CUlaunchConfig, attributes, parameters, arguments. */
  private Offheap config(int bytes, int[] attributes) {
    int parameters = CONFIG_BYTES + 2 * ATTRIBUTE_BYTES;
    Offheap config = new Offheap(parameters + 8 + bytes);
    config.putInt(0, 1).putInt(4, 1).putInt(8, 1).putInt(12, 32).putInt(16, 1).putInt(20, 1);
    config.putLong(32, stream).putLong(40, config.address() + CONFIG_BYTES);
    config.putInt(48, attributes.length);
    for (int i = 0; i < attributes.length; i++) {
      int at = CONFIG_BYTES + i * ATTRIBUTE_BYTES;
      config.putInt(at, attributes[i]).putInt(at + 8, 1);
    }
    return config.putLong(parameters, config.address() + parameters + 8);
  }
}
