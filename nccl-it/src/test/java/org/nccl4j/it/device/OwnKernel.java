package org.nccl4j.it.device;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.nccl4j.device.cuda.DeviceHeaders;

/** The example of a user's kernels, built as a user would. */
final class OwnKernel {
  private OwnKernel() {}

  /** Compiled against the unpacked headers; the test is skipped, with the reason, without nvcc. */
  static byte[] compile(Path folder, String architecture) throws Exception {
    DeviceHeaders.unpack(folder);
    Path source = folder.resolve("own_kernel.cu");
    try (InputStream in = OwnKernel.class.getResourceAsStream("own_kernel.cu")) {
      Files.copy(in, source);
    }
    Path cubin = folder.resolve("own_kernel.cubin");
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
}
