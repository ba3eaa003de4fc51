package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;

/**
 * The blocks of exchanges with experts and of ragged ones, with the fake driver: within the same
 * limits as those of collectives.
 */
@Timeout(600)
class ExchangeBlocksTest {
  private static final String LAUNCH = "cuLaunchKernelEx(";

  @TempDir static Path folder;
  private static FakeGpuProcess program;

  @BeforeAll
  static void buildTheFake() throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    program = FakeGpuProcess.in(folder);
  }

  private static Ran run(Map<String, String> settings, String... arguments) throws Exception {
    return program.run(settings, FakeExchangeRanks.class, arguments);
  }

  /** The numbers of blocks that kernels have, ascending. */
  private static List<Integer> blocks(Ran ran) {
    List<Integer> blocks =
        ran.calls().stream()
            .filter(call -> call.startsWith(LAUNCH))
            .map(call -> Integer.valueOf(call.substring(LAUNCH.length(), call.indexOf(','))))
            .distinct()
            .sorted()
            .toList();
    assertFalse(blocks.isEmpty(), ran.output());
    return blocks;
  }

  @Test
  void aLargeGpuGivesThemWhatIsFastest() throws Exception {
    assertEquals(List.of(64, 128), blocks(run(Map.of())));
  }

  @ParameterizedTest
  @CsvSource({"NCCL_MAX_CTAS, 5, 5", "NCCL_MAX_NCHANNELS, 6, 6", "NCCL_CTA_POLICY, 1, 12"})
  void settingsBoundThem(String setting, String value, int most) throws Exception {
    assertEquals(List.of(most), blocks(run(Map.of(setting, value))));
  }

  @Test
  void optionsBoundThem() throws Exception {
    Ran ran = run(Map.of(), "options");
    assertEquals(List.of(3, 12), blocks(ran));
    assertEquals(
        List.of("blocks 3", "blocks 12"),
        ran.output().lines().filter(line -> line.startsWith("blocks ")).toList());
  }

  /** Blocks of both ranks wait for each other, and need a multiprocessor each. */
  @Test
  void ranksOnOneGpuShareItsMultiprocessors() throws Exception {
    assertEquals(List.of(64, 66), blocks(run(Map.of(), "shared")));
  }

  /** Kernels that pack, place and add wait for no other rank: the user's limit alone counts. */
  @ParameterizedTest
  @CsvSource({"64, 264", "5, 5"})
  void stepsBetweenHostsAreBoundToo(String setting, int most) throws Exception {
    List<Integer> blocks = blocks(run(Map.of("NCCL_MAX_CTAS", setting), "hosts"));
    assertEquals(most, blocks.get(blocks.size() - 1), blocks.toString());
  }
}
