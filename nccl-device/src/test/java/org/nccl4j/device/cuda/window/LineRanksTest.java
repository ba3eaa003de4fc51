package org.nccl4j.device.cuda.window;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.cuda.NativeBuild;

/**
 * The kernels of operations in lines, alone and of groups, compiled for the host and run for all
 * ranks by line_ranks.cc. Needs nvcc's host compiler.
 */
@Timeout(120)
class LineRanksTest {
  private static final long SEED = Long.getLong("seed", System.nanoTime() >>> 1);

  @TempDir static Path folder;

  @BeforeAll
  static void compile() throws IOException {
    for (String name :
        List.of(
            "direct.cuh",
            "direct_ll.cuh",
            "direct_group.cuh",
            "direct_layout.h",
            "direct_group_layout.h",
            "layout.h")) {
      Files.copy(NativeBuild.source("src/main/cuda/" + name), folder.resolve(name));
    }
    for (String name : List.of("line_ranks.cc", "memory.cuh", "reduce.cuh", "wait.cuh")) {
      Files.copy(NativeBuild.source("src/test/c/lines/" + name), folder.resolve(name));
    }
    String source = folder.resolve("line_ranks.cc").toString();
    String to = folder.resolve("line_ranks").toString();
    NativeBuild.nvcc("-x", "c++", "-std=c++17", "-O2", "-Xcompiler", "-pthread", "-o", to, source);
  }

  /** Right results, however each rank divides a group among kernels and these among blocks. */
  @ParameterizedTest
  @ValueSource(ints = {2, 3, 5})
  void ranksDivideGroupsInDifferentWays(int n) throws Exception {
    List<String> command =
        List.of(
            folder.resolve("line_ranks").toString(),
            Integer.toString(n),
            "30",
            Long.toString(SEED + n));
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, process.waitFor(), () -> command + ": " + output);
    assertTrue(output.matches("\\d+ operations by \\d+ kernels\\s*"), output);
  }
}
