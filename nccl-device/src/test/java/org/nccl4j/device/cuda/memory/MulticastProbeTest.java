package org.nccl4j.device.cuda.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The PTX of the single accesses, which a driver compiles. */
class MulticastProbeTest {
  @Test
  void eachTypeAndOperatorOfTheSwitchHasAKernel() {
    String ptx = MulticastProbe.ptx();
    // float and double have sums; half, bfloat16 and four integers have three operators.
    assertEquals(2 + 6 * 3 + 2, ptx.split("\\.visible \\.entry ", -1).length - 1);
    assertTrue(ptx.contains("nccl4j_probe_bfloat16_max("), ptx);
    assertTrue(ptx.contains("multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.f16x2"), ptx);
    assertTrue(ptx.contains("multimem.st.relaxed.sys.global.v4.f32"), ptx);
    String moving = ptx.substring(ptx.indexOf("nccl4j_probe_move("));
    assertEquals(
        4, moving.split("multimem.ld_reduce.relaxed.sys.global.add.v4.f32", -1).length - 1);
  }

  /** Whoever gave up waiting for a kernel may have freed its memory. */
  @Test
  void eachKernelFirstLooksIfItIsRevoked() {
    for (String ptx : List.of(MulticastProbe.ptx(), MulticastProbe.bytePtx(100))) {
      String[] kernels = ptx.split("\\.visible \\.entry ");
      for (int kernel = 1; kernel < kernels.length; kernel++) {
        List<String> begin =
            kernels[kernel]
                .lines()
                .dropWhile(line -> !line.endsWith("{"))
                .skip(1)
                .map(String::strip)
                .filter(line -> !line.startsWith(".reg"))
                .limit(4)
                .toList();
        assertEquals(
            List.of(
                "ld.param.u64 %at, [revoked];",
                "ld.volatile.global.u32 %word, [%at];",
                "setp.ne.u32 %gone, %word, 0;",
                "@%gone ret;"),
            begin,
            kernels[kernel]);
      }
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"sm_90", "sm_100"})
  @Timeout(600)
  void itCanBeAssembled(String architecture, @TempDir Path folder) throws Exception {
    assemble(architecture, MulticastProbe.ptx(), folder);
  }

  /** Floats of 8 bits, for the two GPUs whose switches combine them. */
  @ParameterizedTest
  @ValueSource(ints = {100, 103})
  @Timeout(600)
  void bytesCanBeAssembled(int capability, @TempDir Path folder) throws Exception {
    String ptx = MulticastProbe.bytePtx(capability);
    assertEquals(2 * 3, ptx.split("\\.visible \\.entry ", -1).length - 1);
    assertTrue(ptx.contains("global.add.acc::f16.v4.e4m3x4 {"), ptx);
    assemble("sm_%da".formatted(capability), ptx, folder);
  }

  private static void assemble(String architecture, String ptx, Path folder) throws Exception {
    Path source = Files.writeString(folder.resolve("probe.ptx"), ptx);
    Path log = folder.resolve("log.txt");
    Process process;
    try {
      process =
          new ProcessBuilder(
                  "ptxas",
                  "-arch=" + architecture,
                  "-o",
                  folder.resolve("probe.cubin").toString(),
                  source.toString())
              .redirectErrorStream(true)
              .redirectOutput(log.toFile())
              .start();
    } catch (IOException e) {
      assumeTrue(false, "no ptxas: " + e.getMessage());
      return;
    }
    assertEquals(0, process.waitFor(), Files.readString(log, StandardCharsets.UTF_8));
  }
}
