package org.nccl4j.device.cuda.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.cuda.HostKernels;
import org.nccl4j.device.cuda.NativeBuild;

/**
 * Sends and receives of exposed.cuh, compiled for the host and run against a model of the proxies
 * by exposed_ranks.cc. Needs nvcc's host compiler.
 */
@Timeout(600)
class ExposedRanksTest {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);
  private static final int TIMES = 200;

  @TempDir static Path folder;
  private static HostKernels kernels;

  @BeforeAll
  static void compile() throws Exception {
    kernels =
        HostKernels.in(
            folder, "exposed", "exposed.cuh", "step.cuh", "users.cuh", "wait.cuh", "layout.h");
    Path simt = NativeBuild.source("src/test/c/simt/simt.h");
    Files.copy(simt, folder.resolve(simt.getFileName()));
    kernels.compile("exposed_ranks.cc", "exposed_ranks", "-O1");
  }

  private static String run(int channels, int messages, int fault) throws Exception {
    StringBuilder last = new StringBuilder();
    Random random = new Random(SEED);
    for (int time = 0; time < TIMES; time++) {
      List<String> arguments =
          List.of(
              Integer.toString(channels),
              Integer.toString(messages),
              Integer.toString(random.nextInt(Integer.MAX_VALUE)),
              Integer.toString(fault));
      last.setLength(0);
      last.append(kernels.run("exposed_ranks", arguments));
    }
    return last.toString();
  }

  @Test
  void endsThatUseBuffersAndEndsThatUseSlotsUnderstandEachOther() throws Exception {
    String found = run(3, 30, 0);
    assertTrue(found.matches("exposed [1-9]\\d*, placed [1-9]\\d*, in slots [1-9]\\d*"), found);
  }

  @Test
  void anotherCallIsFound() throws Exception {
    assertEquals("both gave up", run(1, 3, 1));
  }

  @Test
  void bothEndsGiveUpWhereTheNetworkIsSilent() throws Exception {
    assertEquals("both gave up", run(1, 3, 2));
  }
}
