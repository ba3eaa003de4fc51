package org.nccl4j.device.host.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class LastCacheTest {
  @TempDir private Path caches;

  private void add(int index, String level, String size) throws IOException {
    Path cache = Files.createDirectories(caches.resolve("index" + index));
    Files.writeString(cache.resolve("level"), level + "\n");
    Files.writeString(cache.resolve("size"), size + "\n");
  }

  @Test
  void theCacheOfTheHighestLevelCountsIfCoresShareIt() throws IOException {
    assertEquals(Long.MAX_VALUE, LastCache.bytes(caches), "nothing known");
    add(0, "1", "32K");
    add(1, "2", "2048K");
    assertEquals(Long.MAX_VALUE, LastCache.bytes(caches), "each core has its own");
    add(2, "3", "32768K");
    assertEquals(32L << 20, LastCache.bytes(caches));
    add(3, "4", "128M");
    assertEquals(128L << 20, LastCache.bytes(caches));
    add(4, "5", "much");
    assertEquals(Long.MAX_VALUE, LastCache.bytes(caches), "not a number");
  }
}
