package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;

/**
 * Ranges of operations as a tool sees them that NVTX injects: NVIDIA's library, with a small
 * recorder for a tool.
 */
class NvtxRangesTest {
  private static final Path NVTX = Path.of("/usr/local/cuda/lib64/libnvtx3interop.so.1");

  @TempDir Path folder;
  private FakeGpuProcess program;
  private Path tool;
  private Path record;

  @BeforeEach
  void buildTheTool() throws Exception {
    assumeTrue(Files.exists(NVTX), "no " + NVTX + ", which CUDA's toolkit has");
    program = FakeGpuProcess.in(folder);
    tool = folder.resolve("libtool.so");
    record = folder.resolve("ranges");
    ProcessBuilder gcc =
        new ProcessBuilder(
            "gcc",
            "-shared",
            "-fPIC",
            "-I" + FakeGpuProcess.cudaInclude(),
            "-o",
            tool.toString(),
            "src/test/c/fakenvtx.c");
    assertEquals(0, gcc.inheritIO().start().waitFor());
  }

  private Ran run(String... settings) throws Exception {
    Map<String, String> all = new HashMap<>();
    all.put("FAKENVTX_RECORD", record.toString());
    for (int s = 0; s < settings.length; s += 2) {
      all.put(settings[s], settings[s + 1]);
    }
    return program.run(all, SmallGpuRanks.class);
  }

  /** The names; on each thread every range has ended before the next begins. */
  private Set<String> ranges() throws IOException {
    Map<String, List<String>> threads = new HashMap<>();
    for (String line : Files.readAllLines(record)) {
      int space = line.indexOf(' ');
      threads
          .computeIfAbsent(line.substring(0, space), thread -> new ArrayList<>())
          .add(line.substring(space + 1));
    }
    Set<String> names = new TreeSet<>();
    for (List<String> calls : threads.values()) {
      for (int c = 0; c < calls.size(); c += 2) {
        assertTrue(calls.get(c).startsWith("push "), calls.toString());
        assertEquals("pop", calls.get(c + 1), calls.toString());
        names.add(calls.get(c).substring("push ".length()));
      }
    }
    return names;
  }

  @Test
  void eachLaunchIsARange() throws Exception {
    run("NVTX_INJECTION64_PATH", tool.toString());
    Set<String> names = ranges();
    assertTrue(
        names.containsAll(
            List.of(
                "nccl4j all_reduce",
                "nccl4j all_gather",
                "nccl4j reduce_scatter",
                "nccl4j broadcast",
                "nccl4j reduce",
                "nccl4j alltoall",
                "nccl4j send")),
        names::toString);
    assertTrue(names.stream().allMatch(name -> name.startsWith("nccl4j")), names::toString);
  }

  @Test
  void thereAreNoneWhereNoToolListensOrTheyAreForbidden() throws Exception {
    run();
    run("NVTX_INJECTION64_PATH", tool.toString(), "NCCL_NVTX_DISABLE", "1");
    assertFalse(Files.exists(record));
  }

  @Test
  void aToolThatIsMissingCostsNothingElse() throws Exception {
    Ran ran = run("NVTX_INJECTION64_PATH", folder.resolve("none.so").toString());
    assertTrue(ran.output().contains("launched"), ran.output());
    assertEquals(0, ran.warnings(), ran.output());
  }
}
