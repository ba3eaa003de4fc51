package org.nccl4j.api.init.probe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.plan.cost.TunedTable;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.settings.Settings;

class ProbeCacheTest {
  private static final InfoLog INFO = new InfoLog(Settings.ofProcess(Map.of()), "rank 0");
  private static final ProbeKey KEY =
      ProbeKey.of("NVIDIA X", 2, "12080", "", Optional.empty(), "P2P");
  private static final TunedTable TABLE =
      new TunedTable("probe", "NVIDIA X", List.of("2 AllReduce Ring Simple 1024:5.50 4096:6.25"));

  @TempDir Path folder;
  private int processes;

  /** A cache as another process has it: under another name of the folder. */
  private ProbeCache another() {
    Path other = folder;
    for (int p = processes++; p >= 0; p--) {
      other = other.resolve("nccl4j").resolve("..");
    }
    return new ProbeCache(Optional.of(other.resolve("nccl4j")));
  }

  private Path file() {
    return another().file(KEY).orElseThrow();
  }

  @Test
  void anotherProcessFindsWhatOneHasKept() throws IOException {
    assertEquals(Optional.empty(), another().find(KEY, INFO));
    another().keep(KEY, TABLE, INFO);
    assertEquals(Optional.of(TABLE), another().find(KEY, INFO));
    try (Stream<Path> files = Files.list(folder.resolve("nccl4j"))) {
      assertEquals(1, files.count());
    }
  }

  /** Else each creation of the process would measure in vain. */
  @Test
  void aProcessRemembersThatNothingCounted() throws IOException {
    ProbeCache cache = another();
    cache.keep(KEY.unfinished(), TABLE, INFO);
    assertFalse(cache.hasFailed(KEY));
    cache.keepHere(KEY, Optional.empty());
    assertTrue(cache.hasFailed(KEY));
    assertEquals(Optional.of(TABLE), cache.find(KEY.unfinished(), INFO), "for the next process");
    assertFalse(another().hasFailed(KEY), "it measures again");
    cache.keepHere(KEY, Optional.of(TABLE));
    assertFalse(cache.hasFailed(KEY));
  }

  @Test
  void resultsOfOtherConditionsAreNotFound() throws IOException {
    another().keep(KEY, TABLE, INFO);
    ProbeKey driver = ProbeKey.of("NVIDIA X", 2, "13000", "", Optional.empty(), "P2P");
    assertEquals(Optional.empty(), another().find(driver, INFO));
    // Nor if the names of the files were the same.
    Files.copy(file(), another().file(driver).orElseThrow());
    assertEquals(Optional.empty(), another().find(driver, INFO));
  }

  @Test
  void aDamagedFileCountsAsMissingAndIsReplaced() throws IOException {
    another().keep(KEY, TABLE, INFO);
    String whole = Files.readString(file());
    for (String damaged :
        List.of("", "\0\0\0", whole.replace(":5.50", ":"), whole.replace("AllReduce", "AllRed"))) {
      Files.writeString(file(), damaged);
      assertEquals(Optional.empty(), another().find(KEY, INFO), damaged);
    }
    another().keep(KEY, TABLE, INFO);
    assertEquals(Optional.of(TABLE), another().find(KEY, INFO));
  }

  @Test
  void withoutAFolderThatCanBeWrittenTheProcessRemembers() throws IOException {
    Path inTheWay = Files.createFile(folder.resolve("file"));
    for (Optional<Path> place : List.of(Optional.of(inTheWay), Optional.<Path>empty())) {
      ProbeCache cache = new ProbeCache(place);
      assertEquals(Optional.empty(), cache.find(KEY, INFO));
      cache.keep(KEY, TABLE, INFO);
      assertEquals(Optional.of(TABLE), cache.find(KEY, INFO));
    }
  }

  @Test
  void aFailureIsRememberedByItsProcess() {
    ProbeCache cache = another();
    assertFalse(cache.hasFailed(KEY));
    cache.failed(KEY);
    assertTrue(cache.hasFailed(KEY));
    assertFalse(another().hasFailed(KEY));
  }

  @Test
  void writersBesideEachOtherLeaveAWholeFile() throws Exception {
    List<ProbeCache> caches = new ArrayList<>();
    for (int c = 0; c < 8; c++) {
      caches.add(another());
    }
    ExecutorService threads = Executors.newFixedThreadPool(caches.size());
    try {
      List<Future<?>> writing = new ArrayList<>();
      for (ProbeCache cache : caches) {
        writing.add(threads.submit(() -> cache.keep(KEY, TABLE, INFO)));
      }
      for (Future<?> each : writing) {
        each.get(300, TimeUnit.SECONDS);
      }
    } finally {
      threads.shutdownNow();
    }
    assertEquals(Optional.of(TABLE), another().find(KEY, INFO));
  }

  @Test
  void theFolderIsThatOfTheXdgSpecification() {
    assertEquals(folder(Map.of(), "/home/a"), "/home/a/.cache/nccl4j");
    assertEquals(folder(Map.of("XDG_CACHE_HOME", "/x"), "/home/a"), "/x/nccl4j");
    assertEquals(folder(Map.of("XDG_CACHE_HOME", "x"), "/home/a"), "/home/a/.cache/nccl4j");
    assertEquals(folder(Map.of(), ""), "none");
    assertEquals(folder(Map.of("XDG_CACHE_HOME", "/\0"), "/home/a"), "none");
  }

  private static String folder(Map<String, String> variables, String home) {
    return ProbeCache.of(variables, home).folder().map(Path::toString).orElse("none");
  }
}
