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

/** What splits of communicators of GPUs take of the GPUs' memory, with the fake driver. */
@Timeout(180)
class GpuSplitTest {
  @TempDir static Path folder;
  private static FakeGpuProcess program;

  @BeforeAll
  static void buildTheFake() throws Exception {
    program = FakeGpuProcess.in(folder);
  }

  @Test
  void splitsThatShareTakeNoDeviceMemoryAndOthersDo() throws Exception {
    Ran ran = program.run(Map.of("JAVA_TOOL_OPTIONS", "-Dnccl4j.also=splits"), FakeGpuRanks.class);
    String output = ran.output();
    assertTrue(output.contains("with shared connections 0 bytes"), output);
    assertTrue(output.matches("(?s).*by default it holds [1-9]\\d{6,} bytes.*"), output);
    assertTrue(output.contains("by {0=P2P}"), output);
    assertTrue(output.contains("failed: true"), output);
    String mark = "cuMemAlloc_v2(" + FakeGpuRanks.MARK_BYTES + ")";
    List<String> calls = ran.calls();
    int first = calls.indexOf(mark);
    int second = first + 1 + calls.subList(first + 1, calls.size()).indexOf(mark);
    assertTrue(second > first, calls.toString());
    assertEquals(
        List.of(),
        calls.subList(first + 1, second).stream()
            .filter(call -> call.startsWith("cuMemAlloc_v2(") || call.startsWith("cuMemCreate("))
            .toList());
    assertEquals(0, ran.calls().stream().filter(call -> call.contains("misuse")).count());
    assertEquals(ran.count("cuMemAlloc_v2"), ran.count("cuMemFree_v2"));
    assertEquals(ran.count("cuMemHostAlloc"), ran.count("cuMemFreeHost"));
  }
}
