package org.nccl4j.device.shm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.lang.ref.Reference;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.device.bind.NativeFunction;
import org.nccl4j.device.bind.NativeNames;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.os.AllowedCores;
import org.nccl4j.device.os.CoreLayout;
import org.nccl4j.device.support.ThreadLog;

/** On faked machines, with a stand-in for the kernel's call; and the call itself. */
class NumaPlacementTest {
  /** MPOL_DEFAULT and MPOL_BIND. */
  private static final int DEFAULT = 0;

  private static final int BIND = 2;

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

  /** A kernel with an answer to each call. */
  private NumaPlacement placement(int policy, int error) {
    return new NumaPlacement(
        new NumaPlacement.Kernel() {
          @Override
          public int policy() {
            return policy;
          }

          @Override
          public int prefer(long address, long bytes, int node) {
            calls.add(address + " " + bytes + " " + node);
            return error;
          }
        });
  }

  private NumaPlacement placement() {
    return placement(DEFAULT, 0);
  }

  @Test
  void memoryIsPutOnTheNodeOfTheThreadsCores() throws IOException {
    BitSet own = AllowedCores.ofThisThread().cores();
    assumeTrue(!own.isEmpty(), "the kernel does not tell this thread's cores");
    placement().place(layout(own, own.length(), true), 4096, 8192);
    assertEquals(List.of("4096 8192 5"), calls);
  }

  @Test
  void nothingIsDoneOnMachinesWithOneNode() throws IOException {
    BitSet own = AllowedCores.ofThisThread().cores();
    placement().place(layout(own, own.length(), false), 4096, 8192);
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
    placement().place(layout, 4096, 8192);
    assertEquals(List.of(), calls);
  }

  @Test
  void aRefusalIsNoErrorAndLoggedOnce() throws IOException {
    List<String> lines = twice(placement(DEFAULT, Libc.EPERM));
    assertEquals(1, lines.size(), lines.toString());
    assertTrue(lines.get(0).startsWith("memory of ranks on NUMA node 5 lies where"), lines.get(0));
    assertTrue(lines.get(0).endsWith("--cap-add SYS_NICE)"), lines.get(0));
    assertEquals(List.of("4096 8192 5", "12288 4096 5"), calls);
  }

  /** The kernel's answers to both calls, and the end of what is logged. */
  @ParameterizedTest
  @CsvSource({
    "0, 22, node 5 has no memory that this process may use",
    "0, 38, call for it",
    "0, 12, errno 12",
    "-38, 0, call for it",
    "-1, 0, (in a container allow it: docker run --cap-add SYS_NICE)"
  })
  void theReasonIsLogged(int policy, int error, String told) throws IOException {
    assumeTrue(Libc.isAvailable(), Libc::obstacle);
    List<String> lines = twice(placement(policy, error));
    assertEquals(1, lines.size(), lines.toString());
    assertTrue(lines.get(0).endsWith(told), lines.get(0));
    assertEquals(policy < 0 ? 0 : 2, calls.size());
  }

  /**
   * Users set one by numactl: preferred, bound, interleaved; 4 is that of whoever touches first.
   */
  @ParameterizedTest
  @CsvSource({"0, true", "4, true", "1, false", "2, false", "3, false", "5, false", "32770, false"})
  void aPolicyOfTheThreadIsKept(int policy, boolean isPlaced) throws IOException {
    List<String> lines = twice(placement(policy, 0));
    assertEquals(isPlaced ? 2 : 0, calls.size());
    assertEquals(isPlaced ? 0 : 1, lines.size());
    assertTrue(isPlaced || lines.get(0).contains("where the memory policy of the process"));
  }

  /** Places two ranges, and returns what is logged. */
  private List<String> twice(NumaPlacement placement) throws IOException {
    BitSet own = AllowedCores.ofThisThread().cores();
    assumeTrue(!own.isEmpty(), "the kernel does not tell this thread's cores");
    CoreLayout layout = layout(own, own.length(), true);
    List<String> lines = new ArrayList<>();
    Handler handler = new ThreadLog(lines);
    Logger logger = Logger.getLogger("org.nccl4j.ALLOC");
    logger.addHandler(handler);
    try {
      placement.place(layout, 4096, 8192);
      placement.place(layout, 12288, 4096);
    } finally {
      logger.removeHandler(handler);
    }
    return lines;
  }

  /** The kernel shows the policy of what it agreed to, and refuses nodes that it does not have. */
  @Test
  void theKernelTakesTheCall() throws IOException {
    assumeTrue(Libc.isAvailable(), Libc::obstacle);
    try (SharedSegment segment = SharedSegment.create(1 << 16);
        MappedRegion region = MappedRegion.anonymous(1 << 16)) {
      assertEquals(Libc.EINVAL, Libc.preferNode(segment.address(), segment.size(), 1022));
      assumeTrue(Files.exists(Path.of("/proc/self/numa_maps")), "a kernel without nodes");
      int error = Libc.preferNode(segment.address(), segment.size(), 0);
      assumeTrue(error == 0, () -> "mbind is refused: " + Libc.describe(error));
      assertEquals(0, Libc.preferNode(region.address(), region.bytes(), 0));
      assertTrue(policy(segment.address()).contains("prefer"), policy(segment.address()));
      assertTrue(policy(region.address()).contains("prefer"), policy(region.address()));
    }
  }

  /** Binds a thread's memory to node 0, as numactl does for a process. */
  @Test
  void memoryOfAThreadWithAPolicyHasThat() throws Exception {
    assumeTrue(Libc.isAvailable(), Libc::obstacle);
    String processor = System.getProperty("os.arch");
    assumeTrue(List.of("amd64", "aarch64").contains(processor), "other numbers of calls");
    assumeTrue(Files.exists(Path.of("/proc/self/numa_maps")), "a kernel without nodes");
    assumeTrue(Libc.memoryPolicy() == DEFAULT, "this process has a policy");
    BitSet own = AllowedCores.ofThisThread().cores();
    CoreLayout layout = layout(own, own.length(), true);
    write("node/online", "0,6"); // every machine has node 0
    write("node/node0/cpulist", Files.readString(system.resolve("node/node5/cpulist")).trim());
    FutureTask<List<String>> policies =
        new FutureTask<>(
            () -> {
              try (MappedRegion free = MappedRegion.anonymous(1 << 16);
                  MappedRegion bound = MappedRegion.anonymous(1 << 16)) {
                NumaPlacement.here(layout, free.address(), free.bytes());
                bindMemory("aarch64".equals(processor) ? 237 : 238);
                NumaPlacement.here(layout, bound.address(), bound.bytes());
                return List.of(policy(free.address()), policy(bound.address()));
              }
            });
    Thread thread = new Thread(policies);
    thread.start();
    List<String> both = policies.get(300, TimeUnit.SECONDS);
    assumeTrue(both.get(0).contains("prefer"), "mbind is refused");
    assertFalse(both.get(1).contains("prefer"), both.get(1));
  }

  /** Calls set_mempolicy. */
  private static void bindMemory(long number) {
    long syscall = NativeFunction.find(NativeNames.LIBC, "syscall");
    Offheap nodes = new Offheap(Long.BYTES).putLong(0, 1);
    assertEquals(0, NativeFunction.call(syscall, number, BIND, nodes.address(), 64, 0, 0));
    Reference.reachabilityFence(nodes);
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
