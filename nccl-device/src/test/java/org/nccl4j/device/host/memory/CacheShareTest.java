package org.nccl4j.device.host.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.os.AllowedCores;
import org.nccl4j.device.os.CoreLayout;

class CacheShareTest {
  private static final long MIB = 1 << 20;
  private static final long UNKNOWN = Long.MAX_VALUE;

  @TempDir private Path system;

  private void online(String cores) throws IOException {
    Files.createDirectories(system.resolve("cpu"));
    Files.writeString(system.resolve("cpu/online"), cores + "\n");
  }

  private void add(int core, int index, String level, String size, String shared)
      throws IOException {
    Path cache = system.resolve("cpu/cpu" + core + "/cache/index" + index);
    Files.createDirectories(cache);
    Files.writeString(cache.resolve("level"), level + "\n");
    Files.writeString(cache.resolve("size"), size + "\n");
    Files.writeString(cache.resolve("shared_cpu_list"), shared + "\n");
  }

  /** Cores of which every four share 16 MiB. */
  private void addComplexes(int complexes) throws IOException {
    online("0-" + (4 * complexes - 1));
    for (int core = 0; core < 4 * complexes; core++) {
      int first = core / 4 * 4;
      add(core, 0, "1", "32K", "" + core);
      add(core, 1, "3", "16384K", first + "-" + (first + 3));
    }
  }

  private static AllowedCores bound(String list) {
    return new AllowedCores(AllowedCores.parse(list).cardinality(), list);
  }

  private long share(AllowedCores... local) {
    return share(List.of(local));
  }

  private long share(List<AllowedCores> local) {
    return CacheShare.share(new CoreLayout(system).lastCaches(), local);
  }

  @Test
  void theCacheOfTheHighestLevelCountsIfCoresShareIt() throws IOException {
    AllowedCores first = bound("0");
    assertEquals(UNKNOWN, share(first), "nothing known");
    online("0");
    assertEquals(UNKNOWN, share(first), "no caches");
    add(0, 0, "1", "32K", "0");
    add(0, 1, "2", "2048K", "0");
    assertEquals(UNKNOWN, share(first), "each core has its own");
    add(0, 2, "3", "32768K", "0");
    assertEquals(32 * MIB, share(first));
    add(0, 3, "4", "128M", "0");
    assertEquals(128 * MIB, share(first));
    add(0, 4, "5", "much", "0");
    assertEquals(UNKNOWN, share(first), "not a number");
  }

  @Test
  void ranksOfOtherCachesTakeNothing() throws IOException {
    addComplexes(4);
    List<AllowedCores> all = IntStream.range(0, 16).mapToObj(core -> bound("" + core)).toList();
    assertEquals(4 * MIB, share(all));
    assertEquals(16 * MIB, share(bound("0"), bound("4"), bound("8")), "apart");
    assertEquals(8 * MIB, share(bound("0"), bound("3"), bound("8")), "beside one");
    assertEquals(16 * MIB, share(bound("8"), bound("0"), bound("3")), "beside none");
  }

  @Test
  void ranksThatAreNotBoundShareAllCaches() throws IOException {
    addComplexes(4);
    assertEquals(4 * MIB, share(Collections.nCopies(16, bound("0-15"))));
    assertEquals(4 * MIB, share(Collections.nCopies(16, new AllowedCores(16, ""))), "not known");
    assertEquals(16 * MIB, share(Collections.nCopies(2, bound("0-15"))), "no more than one has");
    assertEquals(8 * MIB, share(Collections.nCopies(4, bound("4-11"))), "two caches");
    assertEquals(UNKNOWN, share(bound("77")), "no cache known");
  }

  @Test
  void ranksOfOneCacheShareIt() throws IOException {
    online("0-1");
    add(0, 0, "3", "16M", "0-1");
    add(1, 0, "3", "16M", "0-1");
    assertEquals(8 * MIB, share(bound("0-1"), bound("0-1")));
  }

  /** The bytes that a rank sends lie in the cache beside those that it receives. */
  @Test
  void aShareIsExceededByMoreThanItsHalf() {
    List<AllowedCores> local = AllowedCores.ofThisThread(2);
    CacheShare cache = new CacheShare(local);
    long half = CacheShare.share(local) / 2;
    for (int time = 0; time < 2; time++) {
      assertFalse(cache.isExceeded(half));
      assertTrue(half == UNKNOWN / 2 || cache.isExceeded(half + 1));
    }
  }
}
