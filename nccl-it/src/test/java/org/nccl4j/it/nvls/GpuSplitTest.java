package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;

/** Splits of communicators of GPUs: their memory and launches, with the fake driver. */
@Timeout(600)
class GpuSplitTest {
  @TempDir static Path folder;
  private static FakeGpuProcess program;

  @BeforeAll
  static void buildTheFake() throws Exception {
    program = FakeGpuProcess.in(folder);
  }

  private static Ran run(String... settings) throws Exception {
    Map<String, String> all = new HashMap<>(Map.of("JAVA_TOOL_OPTIONS", "-Dnccl4j.also=splits"));
    for (int i = 0; i < settings.length; i += 2) {
      all.put(settings[i], settings[i + 1]);
    }
    return program.run(all, FakeGpuRanks.class);
  }

  /** A line of what was said, without what it begins with. */
  private static String after(String beginning, Ran ran) {
    return ran.output()
        .lines()
        .filter(line -> line.startsWith(beginning))
        .map(line -> line.substring(beginning.length()))
        .findFirst()
        .orElseThrow(() -> new AssertionError(ran.output()));
  }

  private static long bytes(String beginning, Ran ran) {
    return Long.parseLong(after(beginning, ran).replace(" bytes", ""));
  }

  @Test
  void splitsTakeNoDeviceMemoryUnlessTheyAreToHaveTheirOwn() throws Exception {
    Ran ran = run();
    assertEquals(0, bytes("by default it holds ", ran));
    assertEquals("{kernels=0}", after("items ", ran));
    assertEquals(0, bytes("with share true it holds ", ran));
    assertTrue(bytes("with share false it holds ", ran) > 1_000_000, ran.output());
    assertEquals("{0=P2P}", after("reached by ", ran));
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

  @Test
  void whatSharesFailsTogetherAndWhatIsLeftOfItIsOnItsOwn() throws Exception {
    Ran ran = run();
    String refusal = after("not suspended: ", ran);
    assertTrue(refusal.contains("withSplitShare(false)"), refusal);
    assertEquals("true", after("failed: ", ran));
    assertEquals("false", after("shrunk it has failed: ", ran));
  }

  @Test
  void theSettingDecidesWhereTheProgramDoesNot() throws Exception {
    Ran ran = run("NCCL_COMM_SPLIT_SHARE_RESOURCES", "0");
    assertTrue(bytes("by default it holds ", ran) > 1_000_000, ran.output());
    assertEquals(0, bytes("with share true it holds ", ran));
  }

  @Test
  void aSplitKeepsNvlsUnlessItIsToShare() throws Exception {
    Ran ran = run("NCCL4J_NVLS_MODE", "emulated", "NCCL_DEBUG", "INFO");
    assertTrue(ran.output().contains("with NVLS"), ran.output());
    assertTrue(bytes("by default it holds ", ran) > 1_000_000, ran.output());
    assertTrue(
        ran.output().contains("have their own connections: on rank 0 it has NVLS"), ran.output());
    assertEquals(0, bytes("with share true it holds ", ran));
    Ran always = run("NCCL4J_NVLS_MODE", "emulated", "NCCL_COMM_SPLIT_SHARE_RESOURCES", "1");
    assertEquals(0, bytes("by default it holds ", always));
  }

  /** A stream that waits may hold up another one's kernel: a GPU has few queues for streams. */
  @Test
  void ranksOfOneGpuLaunchAnOperationBeforeAnyOfThemWaitsForIt() throws Exception {
    Ran ran = program.run(Map.of(), FakeSharedGpu.class);
    String mark = "cuMemAlloc_v2(" + FakeGpuRanks.MARK_BYTES + ")";
    List<String> calls = ran.calls();
    List<String> group = calls.subList(calls.indexOf(mark), calls.lastIndexOf(mark));
    List<String> order =
        group.stream()
            .filter(call -> call.startsWith("cuLaunchKernelEx") || call.startsWith("cuStreamWait"))
            .map(call -> call.startsWith("cuLaunch") ? "launch" : "wait")
            .toList();
    assertEquals(List.of("launch", "launch"), order.subList(0, 2), group.toString());
    assertEquals(4, order.stream().filter("launch"::equals).count(), group.toString());
    assertEquals(List.of("wait", "launch"), order.subList(order.size() - 2, order.size()));
  }
}
