package org.nccl4j.it.device;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import jcuda.Pointer;
import jcuda.driver.CUcontext;
import jcuda.driver.CUdevice;
import jcuda.driver.CUfunction;
import jcuda.driver.CUmodule;
import jcuda.driver.JCudaDriver;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.DeviceHeaders;

/** A user's kernels, built and launched as a user would. */
final class OwnKernel {
  private static final int THREADS = 256;

  private final CUmodule module;

  private OwnKernel(CUmodule module) {
    this.module = module;
  }

  /** Compiled against the unpacked headers; the test is skipped, with the reason, without nvcc. */
  static byte[] compile(String name, Path folder, String architecture) throws Exception {
    DeviceHeaders.unpack(folder);
    Path source = folder.resolve(name);
    try (InputStream in = OwnKernel.class.getResourceAsStream(name)) {
      Files.copy(in, source);
    }
    Path cubin = folder.resolve(name + ".cubin");
    Process nvcc;
    try {
      nvcc =
          new ProcessBuilder(
                  "nvcc",
                  "-cubin",
                  "-arch=" + architecture,
                  "-Werror=all-warnings",
                  "-I" + folder,
                  "-o",
                  cubin.toString(),
                  source.toString())
              .redirectErrorStream(true)
              .start();
    } catch (IOException e) {
      assumeTrue(false, "no nvcc: " + e.getMessage());
      throw e;
    }
    String output = new String(nvcc.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, nvcc.waitFor(), output);
    return Files.readAllBytes(cubin);
  }

  /** Loads kernels into the primary context, in which nccl4j works too, and makes it current. */
  static OwnKernel load(CudaDevice gpu, byte[] cubin) {
    CUdevice device = new CUdevice();
    check(JCudaDriver.cuDeviceGet(device, gpu.index()));
    CUcontext context = new CUcontext();
    check(JCudaDriver.cuDevicePrimaryCtxRetain(context, device));
    check(JCudaDriver.cuCtxSetCurrent(context));
    CUmodule module = new CUmodule();
    check(JCudaDriver.cuModuleLoadData(module, cubin));
    return new OwnKernel(module);
  }

  /**
   * Launches a kernel on the default stream and waits for it.
   *
   * @param more further addresses or numbers of 8 bytes, as far as the kernel has them
   */
  void launch(
      String name,
      int blocks,
      long communicator,
      long[] buffers,
      int count,
      long failed,
      long... more) {
    CUfunction function = new CUfunction();
    check(JCudaDriver.cuModuleGetFunction(function, module, name));
    Pointer[] arguments = new Pointer[5 + more.length];
    arguments[0] = Pointer.to(new long[] {communicator});
    arguments[1] = Pointer.to(new long[] {buffers[0]});
    arguments[2] = Pointer.to(new long[] {buffers[1]});
    arguments[3] = Pointer.to(new int[] {count});
    arguments[4] = Pointer.to(new long[] {failed});
    for (int i = 0; i < more.length; i++) {
      arguments[5 + i] = Pointer.to(new long[] {more[i]});
    }
    check(
        JCudaDriver.cuLaunchKernel(
            function, blocks, 1, 1, THREADS, 1, 1, 0, null, Pointer.to(arguments), null));
    check(JCudaDriver.cuCtxSynchronize());
  }

  private static void check(int code) {
    assertEquals(0, code, () -> jcuda.driver.CUresult.stringFor(code));
  }
}
