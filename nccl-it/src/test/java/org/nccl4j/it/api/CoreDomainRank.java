package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.ref.Reference;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.function.IntToDoubleFunction;
import java.util.logging.Level;
import java.util.logging.Logger;
import java.util.stream.IntStream;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.bind.NativeLibrary;
import org.nccl4j.device.bind.NativeMemory;
import org.nccl4j.device.bind.NativeNames;
import org.nccl4j.device.os.CoreLayout;
import org.nccl4j.it.perf.rank.bind.Scheduling;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/** Ranks of {@link CoreDomainsTest}, threads of one process, on a faked machine. */
public final class CoreDomainRank {
  /** Algorithms that are named; the last chooses. */
  static final List<String> WAYS = List.of("Ring", "Tree", "Doubling", "");

  private static final int MASK_BYTES = 1024;
  private static final Path POLICIES = Path.of("/proc/self/numa_maps");
  private static final int[] COUNTS = {3, 9011};

  private final Communicator comm;
  private final DeviceStream stream;
  private final String way;
  private final int n;

  private CoreDomainRank(Communicator comm, DeviceStream stream, String way) {
    this.comm = comm;
    this.stream = stream;
    this.way = way;
    this.n = comm.nRanks();
  }

  static CommunicatorConfig config(String way) {
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .withOperationTimeout(Duration.ofSeconds(60))
            .with("NCCL_SOCKET_IFNAME", "lo")
            .with("NCCL_DEBUG", "INFO")
            .with("NCCL_DEBUG_SUBSYS", "GRAPH");
    return way.isEmpty() ? config : config.with("NCCL_ALGO", way);
  }

  /** Arguments: the machine's folder, an id for each way, the number of ranks, rank:core,... */
  public static void main(String[] arguments) throws Exception {
    Method pretend = CoreLayout.class.getDeclaredMethod("pretend", CoreLayout.class);
    pretend.setAccessible(true);
    pretend.invoke(null, new CoreLayout(Path.of(arguments[0])));
    List<String> lines = new CopyOnWriteArrayList<>();
    Logger log = Logger.getLogger("org.nccl4j.GRAPH");
    log.addHandler(NvlsTest.collect(lines, Level.INFO));
    log.setUseParentHandlers(false);
    Logger allocations = Logger.getLogger("org.nccl4j.ALLOC");
    allocations.setLevel(Level.ALL);
    allocations.addHandler(NvlsTest.collect(lines, Level.ALL));
    allocations.setUseParentHandlers(false);
    String[] ids = arguments[1].split(",");
    int n = Integer.parseInt(arguments[2]);
    String[] ranks = arguments[3].split(",");
    for (int w = 0; w < WAYS.size(); w++) {
      UniqueId id = UniqueId.parse(ids[w]);
      String way = WAYS.get(w);
      List<FutureTask<Void>> tasks = new ArrayList<>();
      for (String rank : ranks) {
        String[] place = rank.split(":");
        FutureTask<Void> task =
            new FutureTask<>(
                () -> {
                  bind(Integer.parseInt(place[1]));
                  run(way, n, id, Integer.parseInt(place[0]), ranks.length < n, lines);
                  return null;
                });
        tasks.add(task);
        Thread thread = new Thread(task, "rank " + place[0]);
        thread.setDaemon(true);
        thread.start();
      }
      for (FutureTask<Void> task : tasks) {
        task.get(120, TimeUnit.SECONDS);
      }
    }
    List<Integer> order =
        IntStream.range(0, 2 * n).filter(r -> r % n % 2 == r / n).map(r -> r % n).boxed().toList();
    String expected = "the ring goes by host, NUMA node and last cache: " + order;
    long told = lines.stream().filter(line -> line.endsWith(expected)).count();
    assertEquals(WAYS.size() * ranks.length, told, expected + " not in " + lines);
  }

  /**
   * The memory of a rank on node 0, which every machine has, prefers that, or the kernel refuses.
   *
   * @param shared whether other processes map the slots of connections
   */
  private static void expectPlacement(boolean shared, List<String> log) throws IOException {
    boolean refused = log.stream().anyMatch(line -> line.contains("on NUMA node 0 lies where"));
    if (refused || !Files.exists(POLICIES)) {
      return;
    }
    List<String> slots = Files.readAllLines(POLICIES);
    assertTrue(
        slots.stream()
            .anyMatch(
                line -> line.contains("prefer") && (line.contains("memfd:nccl4j") || !shared)),
        "" + slots);
    try (DeviceMemory window = Devices.host().memAlloc(1 << 16);
        DeviceMemory large = Devices.host().allocate(4 << 20)) {
      for (DeviceMemory memory : List.of(window, large)) {
        String policy = policy(memory.address());
        assertTrue(policy.contains("prefer"), policy);
      }
    }
  }

  /** The kernel's line of the mapping with an address: it joins neighbours of equal policy. */
  private static String policy(long address) throws IOException {
    TreeMap<Long, String> lines = new TreeMap<>(Long::compareUnsigned);
    for (String line : Files.readAllLines(POLICIES)) {
      lines.put(Long.parseUnsignedLong(line.substring(0, line.indexOf(' ')), 16), line);
    }
    Map.Entry<Long, String> mapping = lines.floorEntry(address);
    return mapping == null ? "" : mapping.getValue();
  }

  private static void bind(int core) {
    ByteBuffer mask = ByteBuffer.allocateDirect(MASK_BYTES);
    mask.put(core / Byte.SIZE, (byte) (1 << core % Byte.SIZE));
    Scheduling libc = NativeLibrary.load(Scheduling.class, NativeNames.LIBC);
    assertEquals(0, libc.sched_setaffinity(0, MASK_BYTES, NativeMemory.addressOf(mask)));
    Reference.reachabilityFence(mask);
  }

  private static void run(
      String way, int n, UniqueId id, int rank, boolean shared, List<String> log)
      throws IOException {
    try (Communicator comm = Communicator.initRank(n, id, rank, Devices.host(), config(way));
        DeviceStream stream = comm.device().createStream()) {
      if (rank % 2 == 0) {
        expectPlacement(shared, log);
      }
      for (int count : COUNTS) {
        new CoreDomainRank(comm, stream, way).everyCall(count);
      }
    }
  }

  private boolean has(Operation operation) {
    return way.isEmpty() || Algorithm.valueOf(way.toUpperCase(Locale.ROOT)).has(operation);
  }

  private void everyCall(int count) {
    int rank = comm.rank();
    double sum = 10.0 * n * (n - 1) / 2;
    try (DeviceMemory one = Ranks.floats(count, i -> rank * 10 + i % 3);
        DeviceMemory thirds = Ranks.floats(count, i -> 1 / (3.0 + rank + i));
        DeviceMemory many = Ranks.floats(n * count, i -> rank * 10 + i / count);
        DeviceMemory outOne = Ranks.floats(count, i -> -1);
        DeviceMemory outMany = Ranks.floats(n * count, i -> -1)) {
      for (int each = 0; each < n; each++) {
        int root = each;
        comm.broadcast(one, outOne, count, DataType.FLOAT32, root, stream);
        expect(outOne, i -> root * 10 + i % 3);
        comm.reduce(one, outOne, count, DataType.FLOAT32, RedOp.SUM, root, stream);
        if (rank == root) {
          expect(outOne, i -> sum + n * (i % 3));
        }
      }
      comm.allReduce(one, outOne, count, DataType.FLOAT32, RedOp.SUM, stream);
      expect(outOne, i -> sum + n * (i % 3));
      if (has(Operation.REDUCE_SCATTER)) {
        comm.reduceScatter(many, outOne, count, DataType.FLOAT32, RedOp.SUM, stream);
        expect(outOne, i -> sum + n * rank);
      }
      if (has(Operation.ALL_GATHER)) {
        comm.allReduce(thirds, outOne, count, DataType.FLOAT32, RedOp.SUM, stream);
        comm.allGather(outOne, outMany, count, DataType.FLOAT32, stream);
        stream.synchronize();
        float[] own = Ranks.floats(outOne);
        float[] all = Ranks.floats(outMany);
        for (int peer = 0; peer < n; peer++) {
          assertArrayEquals(own, Arrays.copyOfRange(all, peer * count, (peer + 1) * count));
        }
      }
    }
  }

  private void expect(DeviceMemory memory, IntToDoubleFunction value) {
    stream.synchronize();
    Ranks.assertFloats(value, Ranks.floats(memory), way);
  }
}
