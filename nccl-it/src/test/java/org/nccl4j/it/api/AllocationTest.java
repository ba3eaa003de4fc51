package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertAll;
import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Group;
import org.nccl4j.api.Registration;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/** A warmed-up operation allocates nothing, from the call to the kernel's end. */
@Timeout(600)
class AllocationTest {
  private static final int OPERATIONS = 2000;

  @Test
  void allReduceAllocatesNothing() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      Allocation allocation = new Allocation(2, OPERATIONS, List.of());
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = Ranks.floats(4096, i -> 1)) {
              allocation.measure(() -> operations(comm, stream, data));
            }
          });
      allocation.assertNothing();
    }
  }

  /** Programs register all of their memory, and use some for collectives. */
  @Test
  void callsBesideRegistrationsThatNoneUsesAllocateNothing() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      Allocation allocation = new Allocation(2, OPERATIONS, List.of());
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = Ranks.floats(4096, i -> 1);
                DeviceMemory other = comm.device().memAlloc(1 << 16)) {
              Registration registration = comm.register(other);
              allocation.measure(() -> operations(comm, stream, data));
              assertFalse(registration.isMapped());
              comm.deregister(registration);
            }
          });
      allocation.assertNothing();
    }
  }

  private static void operations(Communicator comm, DeviceStream stream, DeviceMemory data) {
    for (int i = 0; i < OPERATIONS; i++) {
      comm.allReduce(data, data, 4096, DataType.FLOAT32, RedOp.MAX, stream);
      comm.allReduce(data, data, 2, DataType.FLOAT32, RedOp.MAX, stream);
      stream.synchronize();
    }
  }

  /**
   * Alone and in groups.
   *
   * @param hosts of the two ranks: a rank of another host takes messages
   */
  @ParameterizedTest
  @ValueSource(strings = {"aa", "ab"})
  void putsSignalsAndWaitsAllocateNothing(String hosts) throws Exception {
    Window[] windows = new Window[2];
    try (Ranks ranks = Ranks.onHosts(hosts, CommunicatorConfig.defaults())) {
      ranks.run((comm, stream) -> windows[comm.rank()] = register(comm));
      Allocation alone = of(2, OPERATIONS);
      Allocation grouped = of(2, OPERATIONS);
      ranks.run(
          (comm, stream) -> {
            Window window = windows[comm.rank()];
            try (DeviceMemory data = Ranks.floats(16, i -> 1)) {
              int peer = 1 - comm.rank();
              Map<Integer, Integer> signals = new HashMap<>(Map.of(peer, 3));
              Runnable calls =
                  () -> {
                    comm.putSignal(data, 16, DataType.FLOAT32, peer, window, 0, stream);
                    comm.putSignal(data, 8, DataType.FLOAT32, peer, window, 64, stream);
                    comm.signal(peer, stream);
                    comm.waitSignal(signals, stream);
                  };
              alone.measure(() -> exchanges(calls, stream));
              grouped.measure(() -> exchanges(() -> Group.run(calls), stream));
            }
          });
      alone.assertNothing();
      grouped.assertNothing();
      ranks.run((comm, stream) -> comm.deregisterWindowOnAllRanks(windows[comm.rank()]));
    }
  }

  private static Window register(Communicator comm) {
    return comm.registerWindow(comm.device().memAlloc(1 << 12));
  }

  private static void exchanges(Runnable calls, DeviceStream stream) {
    for (int i = 0; i < OPERATIONS; i++) {
      calls.run();
      stream.synchronize();
    }
  }

  /**
   * Lines, slots, exposed steps, halves that two ranks share ({@code Pair}), and windows; of more
   * ranks also trees and rings.
   */
  @ParameterizedTest
  @CsvSource({
    "2, DEVICE, 2, 200",
    "2, DEVICE, 8192, 100",
    "2, DEVICE, 300000, 20",
    "2, WRAPPED, 8192, 100",
    "2, WINDOW, 2, 200",
    "2, WINDOW, 8192, 100",
    "2, WINDOW, 300000, 20",
    "3, DEVICE, 2, 100",
    "3, DEVICE, 8192, 50",
    "3, WINDOW, 2, 100",
    "8, DEVICE, 2, 50",
    "8, DEVICE, 8192, 50"
  })
  void noCallOfThreadsAllocates(int nRanks, EveryCall.Kind kind, int count, int turns)
      throws Exception {
    Map<Integer, Allocation> allocations = new TreeMap<>();
    for (int call = 0; call <= EveryCall.CALLS; call++) {
      allocations.put(call, of(nRanks, turns));
    }
    try (Ranks ranks = new Ranks(nRanks)) {
      ranks.run(
          (comm, stream) -> {
            try (EveryCall calls = new EveryCall(comm, stream, kind, count)) {
              for (int call = 0; call <= EveryCall.CALLS; call++) {
                int its = call;
                allocations.get(call).measure(() -> calls.run(its, turns));
              }
            }
          });
    }
    assertNothing(allocations);
  }

  /**
   * The measurement of a call.
   *
   * @param turns of a round: an object of each would be 16 times as many bytes
   */
  static Allocation of(int ranks, int turns) {
    return new Allocation(ranks, 8 * turns, List.of());
  }

  /** Names all calls that allocate. */
  static void assertNothing(Map<Integer, Allocation> allocations) {
    assertAll(
        allocations.entrySet().stream()
            .map(
                each ->
                    () ->
                        assertDoesNotThrow(
                            each.getValue()::assertNothing, "call " + each.getKey())));
  }

  /** Mapped steps, and those that are read by process_vm_readv where that is allowed. */
  @Test
  void noCallOfProcessesAllocates() throws Exception {
    SharingRank.runBoth("allocation");
  }
}
