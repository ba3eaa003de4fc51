package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Probes of communicators on the fake driver's GPUs, which no table knows. Its events are always
 * 1.5 ms apart.
 */
class GpuProbeTest {
  @TempDir Path folder;
  @TempDir Path cache;
  private FakeGpuProcess process;

  @BeforeEach
  void build() throws Exception {
    process = FakeGpuProcess.in(folder);
  }

  private FakeGpuProcess.Ran run(String... settings) throws Exception {
    Map<String, String> all = new HashMap<>();
    all.put("NCCL4J_PROBE", "1");
    all.put("FAKECUDA_NAME", "Fake GPU");
    all.put("NCCL_DEBUG", "INFO");
    all.put("NCCL_DEBUG_SUBSYS", "TUNING");
    all.put("XDG_CACHE_HOME", cache.toString());
    for (int s = 0; s < settings.length; s += 2) {
      all.put(settings[s], settings[s + 1]);
    }
    return process.run(all, FakeGpuRanks.class);
  }

  private List<Path> files() throws IOException {
    Path kept = cache.resolve("nccl4j");
    if (!Files.isDirectory(kept)) {
      return List.of();
    }
    try (Stream<Path> files = Files.list(kept)) {
      return files.toList();
    }
  }

  private static boolean isProbed(FakeGpuProcess.Ran ran) {
    return ran.output().contains("measured, probe");
  }

  @Test
  void theFirstCreationMeasuresAndTheNextReads() throws Exception {
    FakeGpuProcess.Ran first = run();
    System.out.println(first.output());
    assertTrue(isProbed(first), first.output());
    assertEquals(0, first.warnings(), first.output());
    assertEquals(1, files().size());
    long launches = first.count("cuLaunchKernelEx");
    assertTrue(launches > 100, launches + " launches");
    FakeGpuProcess.Ran second = run();
    assertTrue(isProbed(second), second.output());
    assertEquals(0, second.count("cuStreamWaitValue32"), "waits at gates");
  }
}
