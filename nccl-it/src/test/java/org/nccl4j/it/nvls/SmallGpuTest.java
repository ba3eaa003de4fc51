package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;
import org.nccl4j.it.nvls.FakeGpuProcess.Running;

/**
 * All operations on GPUs with few multiprocessors, against the fake driver with their attributes:
 * no kernel whose blocks wait for other ranks has more blocks than are at work at once.
 */
@Timeout(600)
class SmallGpuTest {
  /** Of PCIe 5.0 at 5.2 GB/s a channel. */
  private static final int MOST_CHANNELS_OF_PCIE = 10;

  private static final String LAUNCH = "cuLaunchKernelEx(";

  @TempDir static Path folder;
  private static FakeGpuProcess program;

  @BeforeAll
  static void buildTheFake() throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    program = FakeGpuProcess.in(folder);
  }

  /**
   * Two ranks as processes.
   *
   * @param models FAKECUDA_GPU of each
   */
  private static List<Ran> processes(String... models) throws Exception {
    String id = UniqueId.create().toString();
    List<Running> running = new ArrayList<>();
    for (int rank = 0; rank < models.length; rank++) {
      running.add(
          program.start(
              Map.of("FAKECUDA_GPU", models[rank]),
              SmallGpuRanks.class,
              Integer.toString(models.length),
              Integer.toString(rank),
              id));
    }
    List<Ran> ran = new ArrayList<>();
    for (Running process : running) {
      ran.add(process.end());
    }
    return ran;
  }

  /** The blocks of each kernel. */
  private static List<Integer> grids(Ran ran) {
    assertEquals(0, ran.status(), ran.output());
    List<Integer> grids =
        ran.calls().stream()
            .filter(call -> call.startsWith(LAUNCH))
            .map(call -> Integer.valueOf(call.substring(LAUNCH.length(), call.indexOf(','))))
            .toList();
    assertFalse(grids.isEmpty(), ran.output());
    return grids;
  }

  private static int most(Ran ran) {
    return grids(ran).stream().mapToInt(Integer::intValue).max().orElseThrow();
  }

  /** Capability, multiprocessors and threads of a multiprocessor. */
  @ParameterizedTest
  @CsvSource({
    "T4, 75:40:1024, 20",
    "RTX 3060, 86:28:1536, 14",
    "RTX 4060, 89:24:1536, 12",
    "MIG 1g of an H100, 90:16:2048, 8",
    "MIG 1g of an A100, 80:14:2048, 7",
    "Jetson Orin Nano, 87:8:1536, 4"
  })
  void kernelsLeaveHalfOfASmallGpu(String gpu, String model, int room) throws Exception {
    Ran ran =
        program.run(Map.of("FAKECUDA_GPU", model, "NCCL_MIN_CTAS", "64"), SmallGpuRanks.class);
    assertEquals(room, most(ran), gpu);
  }

  @Test
  void soDoKernelsThatGoThroughMemoryOfTheHost() throws Exception {
    Ran ran =
        program.run(
            Map.of("FAKECUDA_GPU", "75:40:1024", "NCCL_P2P_DISABLE", "1"), SmallGpuRanks.class);
    assertTrue(ran.output().contains("=SHM}"), ran.output());
    assertTrue(most(ran) <= 20, "blocks " + most(ran));
  }

  @Test
  void theRankWithTheLeastRoomDecidesForAll() throws Exception {
    List<Ran> both = processes("90:132:2048", "89:24:1536");
    assertEquals(12, most(both.get(0)));
    assertEquals(grids(both.get(0)), grids(both.get(1)));
  }

  @Test
  void aLargeGpuHasAllChannels() throws Exception {
    Ran ran = program.run(Map.of(), SmallGpuRanks.class);
    assertEquals(3 * 64, most(ran), "an exchange with one other rank, and a copy");
  }

  /** An A10, L40S and H100 PCIe: many multiprocessors, and links that few channels fill. */
  @ParameterizedTest
  @CsvSource({"86:72:1536, 4", "89:142:1536, 4", "90:114:2048, 2"})
  void messagesOverSlowLinksHaveFewBlocks(String model, int devices) throws Exception {
    Ran ran =
        program.run(
            Map.of(
                "FAKECUDA_GPU",
                model,
                "NCCL_P2P_DISABLE",
                "1",
                "FAKECUDA_DEVICES",
                Integer.toString(devices)),
            SmallGpuRanks.class);
    // Of each other rank a send and a receive, and a copy by 64 blocks.
    int most = 64 + (devices - 1) * 2 * MOST_CHANNELS_OF_PCIE;
    assertTrue(most(ran) <= most, "blocks " + most(ran) + " of " + most);
  }

  /** Eight ranks of one process, which exchange with all others at a time. */
  @ParameterizedTest
  @CsvSource({"75:40:1024, 20", "87:8:1536, 4"})
  void exchangesAmongManyRanksGoInSeveralKernels(String model, int room) throws Exception {
    Ran ran =
        program.run(Map.of("FAKECUDA_GPU", model, "FAKECUDA_DEVICES", "8"), SmallGpuRanks.class);
    assertTrue(most(ran) <= room, "blocks " + most(ran));
    assertTrue(ran.output().contains("launched in windows on 8"), ran.output());
  }
}
