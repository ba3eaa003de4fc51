package org.nccl4j.device.cuda.module;

import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.CudaDevices;
import org.nccl4j.device.cuda.NativeBuild;
import org.nccl4j.device.cuda.driver.KernelBuild;

/** The kernels that the build made, and a GPU that they are not for. */
class KernelImagesTest extends AgainstFakeCuda {
  private static final int NO_BINARY_FOR_GPU = 209;

  /** Of all kernels, which the compiler has compressed: a jar makes them little smaller. */
  private static final long MOST_BYTES = 20_000_000;

  private static void assumeKernels() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
  }

  @Test
  void kernelsStaySmall() throws IOException {
    assumeKernels();
    Path folder = NativeBuild.source("target/kernels/META-INF/nccl4j/kernels").toAbsolutePath();
    long bytes = 0;
    try (Stream<Path> files = Files.list(folder)) {
      for (Path fatbin : files.filter(f -> f.toString().endsWith(".fatbin")).toList()) {
        bytes += Files.size(fatbin);
      }
    }
    assertTrue(bytes > 0 && bytes <= MOST_BYTES, bytes + " bytes of kernels in " + folder);
  }

  /** A fatbin that failed to load is not remembered, and breaks nothing. */
  @Test
  void aGpuWithoutAnImageIsToldHowToGetOne() {
    assumeKernels();
    KernelModules modules = new KernelModules(CudaDevices.probe().device(0).gpu());
    fake.fakeFail("cuModuleLoadData", NO_BINARY_FOR_GPU);
    var error = assertThrows(CudaException.class, () -> modules.p2p(MessageKernel.ANY));
    assertTrue(error.problem().contains("cuModuleLoadData"), error.problem());
    assertTrue(error.problem().contains("CUDA device 0 (Fake GPU 0)"), error.problem());
    assertTrue(error.problem().contains("NO_BINARY_FOR_GPU (209)"), error.problem());
    assertTrue(
        error.remedy().contains("-Dcuda.architectures=<its compute capability"), error.remedy());
    fake.fakeReset();
    assertNotNull(modules.p2p(MessageKernel.ANY));
  }
}
