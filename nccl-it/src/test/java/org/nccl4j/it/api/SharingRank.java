package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.shm.SharedSegment;

/**
 * A rank of {@link AllocationTest} or {@link LeakTest} in a process of its own. The other process
 * maps what the device allocates here, and reads other memory by process_vm_readv where that is
 * allowed.
 */
public final class SharingRank {
  private static final int RANKS = 2;
  private static final CommunicatorConfig CONFIG =
      CommunicatorConfig.defaults()
          .withOperationTimeout(Duration.ofSeconds(60))
          .with("NCCL_SOCKET_IFNAME", "lo")
          .with("NCCL4J_SINGLE_COPY", "all")
          .with("NCCL_DEBUG", "INFO")
          .with("NCCL_DEBUG_SUBSYS", "P2P");

  private static final int LARGE = 32 << 10;
  private static final int LARGEST = 300_000;

  /** Communicators, and those before the footprint is taken. */
  private static final int COMMUNICATORS = 12;

  private static final int FIRST = 4;

  private final int rank;
  private final List<UniqueId> ids;

  private SharingRank(int rank, List<UniqueId> ids) {
    this.rank = rank;
    this.ids = ids;
  }

  /** Runs a test's two ranks, and waits for their good end. */
  static void runBoth(String test) throws Exception {
    List<String> ids = new ArrayList<>();
    for (int i = 0; i < (test.equals("leaks") ? COMMUNICATORS : 1); i++) {
      ids.add(UniqueId.create(CONFIG).toString());
    }
    List<Process> processes = new ArrayList<>();
    try {
      for (int rank = 0; rank < RANKS; rank++) {
        List<String> command = RankJvm.command();
        // Calls by java.lang.foreign allocate until the optimizing compiler has compiled them.
        command.add("-Dnccl4j.native=jnr");
        command.addAll(List.of(SharingRank.class.getName(), test, Integer.toString(rank)));
        command.addAll(ids);
        processes.add(new ProcessBuilder(command).inheritIO().start());
      }
      for (Process process : processes) {
        assertTrue(process.waitFor(500, TimeUnit.SECONDS), "a rank does not end");
        assertEquals(0, process.exitValue());
      }
    } finally {
      processes.forEach(Process::destroyForcibly);
    }
  }

  /** Arguments: the test, the rank, and ids of communicators. */
  public static void main(String[] arguments) throws Exception {
    List<UniqueId> ids = List.of(arguments).stream().skip(2).map(UniqueId::parse).toList();
    SharingRank rank = new SharingRank(Integer.parseInt(arguments[1]), ids);
    List<String> lines = new CopyOnWriteArrayList<>();
    Handler handler = NvlsTest.collect(lines, Level.INFO);
    Logger.getLogger("org.nccl4j.P2P").addHandler(handler);
    if (arguments[0].equals("leaks")) {
      rank.leaks();
    } else {
      rank.allocations();
    }
    boolean maps = lines.stream().anyMatch(line -> line.contains("is mapped, from"));
    assertEquals(SharedSegment.obstacle().isEmpty(), maps, lines.toString());
  }

  private Communicator create(UniqueId id) {
    return Communicator.initRank(RANKS, id, rank, Devices.host(), CONFIG);
  }

  /** Both ranks run as many rounds: they have no barrier but the calls. */
  private void allocations() throws Exception {
    try (Communicator comm = create(ids.get(0));
        DeviceStream stream = comm.device().createStream()) {
      for (EveryCall.Kind kind : EveryCall.Kind.values()) {
        measure(comm, stream, kind, LARGE, /* turns= */ 20);
        measure(comm, stream, kind, LARGEST, /* turns= */ 20);
      }
    }
  }

  private static void measure(
      Communicator comm, DeviceStream stream, EveryCall.Kind kind, int count, int turns)
      throws Exception {
    Map<Integer, Allocation> allocations = new TreeMap<>();
    try (EveryCall calls = new EveryCall(comm, stream, kind, count)) {
      for (int call = 0; call <= EveryCall.CALLS; call++) {
        int its = call;
        Allocation allocation = AllocationTest.of(1, turns);
        allocation.measureAll(() -> calls.run(its, turns));
        allocations.put(call, allocation);
      }
    }
    AllocationTest.assertNothing(allocations);
  }

  private void leaks() throws Exception {
    LeakTest.Footprint before = null;
    try (DeviceStream stream = Devices.host().createStream()) {
      for (int i = 0; i < ids.size(); i++) {
        if (i == FIRST) {
          before = LeakTest.Footprint.now();
        }
        try (Communicator comm = create(ids.get(i))) {
          for (EveryCall.Kind kind : EveryCall.Kind.values()) {
            for (int count : new int[] {64, LARGE, LARGEST}) {
              try (EveryCall calls = new EveryCall(comm, stream, kind, count)) {
                calls.run();
              }
            }
          }
        }
      }
    }
    LeakTest.assertNoMore(before);
  }
}
