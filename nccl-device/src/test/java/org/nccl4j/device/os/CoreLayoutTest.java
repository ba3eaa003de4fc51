package org.nccl4j.device.os;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.BitSet;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Nodes and caches of faked machines. */
class CoreLayoutTest {
  @TempDir private Path system;

  private void write(String file, String text) throws IOException {
    Path path = system.resolve(file);
    Files.createDirectories(path.getParent());
    Files.writeString(path, text + "\n");
  }

  private void cache(int core, int index, int level, String shared) throws IOException {
    String folder = "cpu/cpu" + core + "/cache/index" + index + "/";
    write(folder + "level", "" + level);
    write(folder + "size", "16384K");
    write(folder + "shared_cpu_list", shared);
  }

  /** Two nodes of eight cores, of which every four share a cache; a third node has memory alone. */
  private void twoNodes() throws IOException {
    write("cpu/online", "0-15");
    write("node/online", "0-1,3");
    write("node/node0/cpulist", "0-7");
    write("node/node1/cpulist", "8-15");
    write("node/node3/cpulist", "");
    for (int core = 0; core < 16; core++) {
      int first = core / 4 * 4;
      cache(core, 0, 1, "" + core);
      cache(core, 1, 3, first + "-" + (first + 3));
    }
  }

  private CoreDomain domain(String cores) {
    return new CoreLayout(system).domain(AllowedCores.parse(cores));
  }

  @ParameterizedTest
  @CsvSource({
    "0, 0, 0",
    "'2,3', 0, 0",
    "4-7, 0, 4",
    "3-4, 0, -1",
    "0-7, 0, -1",
    "15, 1, 12",
    "7-8, -1, -1",
    "0-15, -1, -1",
    "0-127, -1, -1",
    "'3,64-127', 0, 0",
    "99, -1, -1",
    "'', -1, -1"
  })
  void coresAreInADomainIfAllOfThemAre(String cores, int node, int cache) throws IOException {
    twoNodes();
    assertEquals(new CoreDomain(node, cache), domain(cores));
    assertTrue(new CoreLayout(system).hasNodes());
  }

  @Test
  void whatTheKernelDoesNotTellIsNotKnown() throws IOException {
    assertEquals(CoreDomain.NONE, domain("0"));
    assertFalse(new CoreLayout(system).hasNodes());
    write("cpu/online", "0-3");
    assertEquals(CoreDomain.NONE, domain("0"), "no caches, no nodes");
    write("node/online", "0");
    write("node/node0/cpulist", "0-3");
    assertEquals(new CoreDomain(0, -1), domain("0"), "no caches");
    assertFalse(new CoreLayout(system).hasNodes(), "one node");
    cache(0, 0, 1, "0");
    cache(0, 1, 2, "0-1");
    assertEquals(new CoreDomain(0, -1), domain("0"), "no third level");
    cache(0, 2, 3, "0-1");
    assertEquals(new CoreDomain(0, 0), domain("0"));
    write("node/node0/cpulist", "much");
    assertEquals(new CoreDomain(-1, 0), domain("0"), "no list");
    write("cpu/online", "all");
    assertEquals(CoreDomain.NONE, domain("0"), "no list");
  }

  /** As on some machines whose firmware tells which cores share a cache, and no more. */
  @Test
  void theNodeIsKnownWithoutTheCache() throws IOException {
    twoNodes();
    Path cache = system.resolve("cpu/cpu0/cache/index1");
    Files.delete(cache.resolve("size"));
    assertEquals(new CoreDomain(0, 0), domain("0"));
    assertEquals(
        List.of(0L, 16L << 20, 16L << 20, 16L << 20),
        new CoreLayout(system).lastCaches().stream().map(CoreLayout.Cache::bytes).toList());
    Files.delete(cache.resolve("level"));
    assertEquals(new CoreDomain(0, -1), domain("0"));
  }

  /** The kernel has the node of a core in the core's folder too. */
  @Test
  void aCoreOfThisMachineIsOnItsNode() throws IOException {
    Path cores = Path.of("/sys/devices/system/cpu");
    assumeTrue(Files.exists(cores.resolve("online")), "the kernel does not tell its cores");
    BitSet online = AllowedCores.parse(Files.readString(cores.resolve("online")));
    assumeTrue(online.cardinality() > 1, "all cores of the machine are in no domain");
    int core = online.nextSetBit(0);
    BitSet one = new BitSet();
    one.set(core);
    List<Integer> nodes;
    try (Stream<Path> files = Files.list(cores.resolve("cpu" + core))) {
      nodes =
          files
              .map(file -> file.getFileName().toString())
              .filter(name -> name.matches("node[0-9]+"))
              .map(name -> Integer.valueOf(name.substring("node".length())))
              .toList();
    }
    CoreDomain own = CoreLayout.here().domain(one);
    assertEquals(nodes.isEmpty() ? List.of(-1) : nodes, List.of(own.node()));
    assertTrue(own.cache() <= core, own.toString());
  }
}
