package org.nccl4j.device.shm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.os.AllowedCores;
import org.nccl4j.device.os.CoreLayout;

/** On faked machines, with a stand-in for the kernel's call; and the call itself. */
class NumaPlacementTest {
  @TempDir private Path system;

  private final List<String> calls = new ArrayList<>();

  /** A machine whose node 5 has these cores, and whose node 6 has another core. */
  private CoreLayout layout(BitSet cores, int other, boolean nodes) throws IOException {
    String mine = cores.toString().replaceAll("[{} ]", "");
    write("cpu/online", mine + "," + other);
    write("node/online", nodes ? "5-6" : "5");
    write("node/node5/cpulist", nodes ? mine : mine + "," + other);
    write("node/node6/cpulist", "" + other);
    return new CoreLayout(system);
  }

  private void write(String file, String text) throws IOException {
    Path path = system.resolve(file);
    Files.createDirectories(path.getParent());
    Files.writeString(path, text + "\n");
  }

  private NumaPlacement placement(boolean agrees) {
    return new NumaPlacement(
        (address, bytes, node) -> {
          calls.add(address + " " + bytes + " " + node);
          return agrees;
        });
  }

  @Test
  void memoryIsPutOnTheNodeOfTheThreadsCores() throws IOException {
    BitSet own = AllowedCores.ofThisThread().cores();
    assumeTrue(!own.isEmpty(), "the kernel does not tell this thread's cores");
    placement(true).place(layout(own, own.length(), true), 4096, 8192);
    assertEquals(List.of("4096 8192 5"), calls);
  }

  @Test
  void nothingIsDoneOnMachinesWithOneNode() throws IOException {
    BitSet own = AllowedCores.ofThisThread().cores();
    placement(true).place(layout(own, own.length(), false), 4096, 8192);
    assertEquals(List.of(), calls);
  }

  @Test
  void nothingIsDoneForThreadsThatMayRunOnSeveralNodes() throws IOException {
    BitSet own = AllowedCores.ofThisThread().cores();
    assumeTrue(own.cardinality() > 1, "this thread has one core");
    int last = own.length() - 1;
    own.clear(last);
    CoreLayout layout = layout(own, last, true);
    String more = String.valueOf(last + 1); // else the thread may run on all cores
    write("cpu/online", Files.readString(system.resolve("cpu/online")).trim() + "," + more);
    placement(true).place(layout, 4096, 8192);
    assertEquals(List.of(), calls);
  }

  @Test
  void aRefusalIsNoErrorAndLoggedOnce() throws IOException {
    BitSet own = AllowedCores.ofThisThread().cores();
    assumeTrue(!own.isEmpty(), "the kernel does not tell this thread's cores");
    NumaPlacement refused = placement(false);
    CoreLayout layout = layout(own, own.length(), true);
    List<String> lines = new ArrayList<>();
    Handler handler = collect(lines);
    Logger logger = Logger.getLogger("org.nccl4j.ALLOC");
    logger.addHandler(handler);
    try {
      refused.place(layout, 4096, 8192);
      refused.place(layout, 12288, 4096);
    } finally {
      logger.removeHandler(handler);
    }
    assertEquals(1, lines.size(), lines.toString());
    assertTrue(lines.get(0).startsWith("memory of ranks on NUMA node 5 lies where"), lines.get(0));
    assertEquals(List.of("4096 8192 5", "12288 4096 5"), calls);
  }

  private static Handler collect(List<String> lines) {
    return new Handler() {
      @Override
      public void publish(LogRecord line) {
        lines.add(new SimpleFormatter().formatMessage(line));
      }

      @Override
      public void flush() {}

      @Override
      public void close() {}
    };
  }

  /** The kernel shows the policy of what it agreed to, and refuses nodes that it does not have. */
  @Test
  void theKernelTakesTheCall() throws IOException {
    assumeTrue(Libc.isAvailable(), Libc::obstacle);
    try (SharedSegment segment = SharedSegment.create(1 << 16);
        MappedRegion region = MappedRegion.anonymous(1 << 16)) {
      assertTrue(!Libc.preferNode(segment.address(), segment.size(), 1022), "a node too many");
      assumeTrue(Files.exists(Path.of("/proc/self/numa_maps")), "a kernel without nodes");
      assumeTrue(Libc.preferNode(segment.address(), segment.size(), 0), "mbind is refused");
      assertTrue(Libc.preferNode(region.address(), region.bytes(), 0));
      assertTrue(policy(segment.address()).contains("prefer"), policy(segment.address()));
      assertTrue(policy(region.address()).contains("prefer"), policy(region.address()));
    }
  }

  /** The kernel's line of the mapping with an address: it joins neighbours of equal policy. */
  private static String policy(long address) throws IOException {
    TreeMap<Long, String> lines = new TreeMap<>(Long::compareUnsigned);
    for (String line : Files.readAllLines(Path.of("/proc/self/numa_maps"))) {
      lines.put(Long.parseUnsignedLong(line.substring(0, line.indexOf(' ')), 16), line);
    }
    Map.Entry<Long, String> mapping = lines.floorEntry(address);
    return mapping == null ? "" : mapping.getValue();
  }
}
