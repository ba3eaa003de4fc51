package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

/** Compiles the kernels' mean of integers for the host and compares all means of 8 bits. */
class MeanTest {
  private static final String PROGRAM =
      """
      #include <stdint.h>
      #include <stdio.h>
      #include "%s"
      int main() {
        for (int n = 1; n <= 65535; n += 1 + n / 256) {
          for (int x = -128; x <= 255; x++) {
            if (x < 128 && nccl4j::meanOf((int8_t)x, n) != x / n) printf("int8 %%d / %%d\\n", x, n);
            if (x >= 0 && nccl4j::meanOf((uint8_t)x, n) != x / n) printf("uint8 %%d / %%d\\n", x, n);
          }
          if (nccl4j::meanOf(4000000000u, n) != 4000000000u / n) printf("uint32 / %%d\\n", n);
          if (nccl4j::meanOf(-4000000000ll, n) != -4000000000ll / n) printf("int64 / %%d\\n", n);
        }
      }
      """;

  @Test
  void meansAreRightForAllNumbersOfRanks() throws Exception {
    Path directory = Files.createTempDirectory("mean");
    Path source = directory.resolve("mean.cc");
    Path header = NativeBuild.source("src/main/cuda/mean.cuh").toAbsolutePath();
    Files.writeString(source, PROGRAM.formatted(header));
    Path program = directory.resolve("mean");
    NativeBuild.gcc("-std=c++17", "-o", program.toString(), source.toString());
    Process process = new ProcessBuilder(program.toString()).start();
    String wrong = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, process.waitFor());
    assertEquals("", wrong);
  }
}
