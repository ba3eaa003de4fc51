package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;

/** Reductions by users' functions on GPUs, with the fake driver and a fake NVRTC. */
@Timeout(600)
class FakeFunctionsTest {
  private static final int FEW = FakeFunctionRanks.FEW;
  private static final int MANY = FakeFunctionRanks.MANY;

  @TempDir Path folder;

  /** Of many elements each rank combines a part; parts that are not equal need copies. */
  @Test
  void functorsAreLoadedBeforeAnyKernelWaitsAndStepsHaveNames() throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    Ran ran =
        FakeGpuProcess.in(folder)
            .withNvrtc()
            .run(
                Map.of("NCCL_NVLS_ENABLE", "0", "NCCL4J_PRELOAD_KERNELS", "all"),
                FakeFunctionRanks.class);
    String output = ran.output();
    assertTrue(output.contains("Wrong.cu(2): error: #error"), output);
    assertTrue(output.contains("and structs of this size at multiples of 8 on a GPU"), output);
    int created = ran.calls().indexOf("cuMemAlloc_v2(" + FakeFunctionRanks.MARK_BYTES + ")");
    List<String> later = ran.calls().subList(created, ran.calls().size());
    int launched = first(later, "cuLaunchKernelEx(");
    assertEquals(6, later.stream().filter(call -> call.startsWith("cuModuleLoadData")).count());
    assertTrue(launched > 0, later.toString());
    assertEquals(
        -1, first(later.subList(launched, later.size()), "cuModuleLoadData"), later.toString());
    for (int rank = 0; rank < 2; rank++) {
      String prefix = "rank %d: ".formatted(rank);
      String steps =
          output
              .lines()
              .filter(line -> line.startsWith(prefix))
              .map(line -> line.substring(prefix.length()))
              .collect(Collectors.joining("; "));
      assertTrue(steps.matches(expected(rank)), output);
    }
  }

  /** A pattern of a rank's steps; by either way, since predicted times choose it. */
  private static String expected(int rank) {
    int half = 2 * MANY;
    String toAll = bytes("alltoall", "", half);
    String root = ", root 1";
    String onRoot = rank == 1 ? "; " + step(MANY) : "";
    return String.join(
        "; ",
        bytes("all_gather", "", 4 * FEW),
        step(FEW),
        either(
            List.of(bytes("all_gather", "", 4 * MANY), step(MANY)),
            List.of(toAll, step(MANY / 2), bytes("all_gather", "", half))),
        either(
            List.of(bytes("all_gather", "", 4 * MANY - 4), step(MANY - 1)),
            List.of(
                step(MANY - 1),
                toAll,
                step(MANY / 2 - rank),
                bytes("all_gather", "", half),
                step(MANY - 1))),
        either(
            List.of(bytes("gather", root, 4 * MANY) + onRoot),
            List.of(toAll, step(MANY / 2), bytes("gather", root, half))),
        bytes("alltoall", "", 4 * FEW),
        step(FEW),
        bytes("all_gather", "", 48),
        "local_reduction of 48 uint8, 48 bytes");
  }

  private static String either(List<String> gathered, List<String> inParts) {
    return "(%s|%s)".formatted(String.join("; ", gathered), String.join("; ", inParts));
  }

  private static String bytes(String operation, String root, int bytes) {
    return "%s of %d uint8%s, for function [0-9a-f]{4}, %2$d bytes"
        .formatted(operation, bytes, root);
  }

  private static String step(int floats) {
    return "local_reduction of %d float, %d bytes".formatted(floats, 4 * floats);
  }

  /** The place of the first call that begins with a text, or -1. */
  private static int first(List<String> calls, String begin) {
    return IntStream.range(0, calls.size())
        .filter(i -> calls.get(i).startsWith(begin))
        .findFirst()
        .orElse(-1);
  }
}
