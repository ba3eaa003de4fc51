package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;

/**
 * What a process does not do for its first communicator, since it takes longer than all the rest:
 * see docs/benchmarks/communicators.md.
 */
@Timeout(180)
class FirstCreationTest {
  @TempDir static Path folder;
  private static FakeGpuProcess program;

  @BeforeAll
  static void buildTheFake() throws Exception {
    program = FakeGpuProcess.in(folder);
  }

  @Test
  void noEventIsDescribedWhereNobodyRecords() throws Exception {
    Ran ran = program.run(Map.of("JAVA_TOOL_OPTIONS", "-Xlog:class+load=info"), FakeGpuRanks.class);
    List<String> loaded = ran.output().lines().filter(l -> l.contains(" source: ")).toList();
    assertTrue(holds(loaded, "org.nccl4j.api.launch.Launcher"), "classes are listed");
    assertEquals(List.of(), of(loaded, "jdk.jfr.internal.MetadataRepository"));
  }

  private static boolean holds(List<String> loaded, String name) {
    return !of(loaded, name).isEmpty();
  }

  private static List<String> of(List<String> loaded, String name) {
    return loaded.stream().filter(line -> line.contains(name + " source: ")).toList();
  }
}
