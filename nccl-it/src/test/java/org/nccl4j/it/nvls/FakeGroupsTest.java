package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;

/** Launches of groups of several collectives on GPUs, with the fake driver. */
@Timeout(600)
class FakeGroupsTest {
  private static final long ALL = 2L * FakeGroupRanks.OPERATIONS;
  private static final long CHAINED = 2L * (FakeGroupRanks.OPERATIONS - 1);

  @TempDir static Path folder;
  private static FakeGpuProcess program;

  @BeforeAll
  static void buildTheFake() throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    program = FakeGpuProcess.in(folder);
  }

  /**
   * The launches of the steps of the program: a group, calls without one, a group of operations
   * that use each other's results, a captured group.
   */
  private static List<Long> launches(Map<String, String> settings, String... arguments)
      throws Exception {
    Map<String, String> all = new HashMap<>(settings);
    all.put("NCCL_NVLS_ENABLE", "0");
    Ran ran = program.run(all, FakeGroupRanks.class, arguments);
    List<Long> launches = new ArrayList<>();
    for (String call : ran.calls()) {
      if (call.equals("cuMemAlloc_v2(" + FakeGroupRanks.MARK_BYTES + ")")) {
        launches.add(0L);
      } else if (call.startsWith("cuLaunchKernel") && !launches.isEmpty()) {
        launches.set(launches.size() - 1, launches.get(launches.size() - 1) + 1);
      }
    }
    assertEquals(5, launches.size(), ran.output());
    return launches.subList(0, 4);
  }

  @Test
  void aGroupIsOneKernelOfEachRank() throws Exception {
    assertEquals(List.of(2L, ALL, CHAINED, 2L), launches(Map.of("NCCL_ALGO", "DirectLL")));
  }

  @Test
  void aSettingOrAnotherAlgorithmHasAKernelForEachOperation() throws Exception {
    List<Long> apart = List.of(ALL, ALL, CHAINED, ALL);
    assertEquals(apart, launches(Map.of("NCCL_ALGO", "DirectLL", "NCCL4J_GROUP_FUSE", "0")));
    assertEquals(apart, launches(Map.of("NCCL_ALGO", "Ring")));
  }

  /** Ranks that share a GPU launch in turns: a rank's kernel may hold up the others' streams. */
  @Test
  void ranksOnOneGpuLaunchOneOperationAfterTheOther() throws Exception {
    Map<String, String> settings =
        Map.of("NCCL_ALGO", "DirectLL", "NCCL_MULTI_RANK_GPU_ENABLE", "1");
    assertEquals(List.of(ALL, ALL, CHAINED, 0L), launches(settings, "shared"));
  }
}
