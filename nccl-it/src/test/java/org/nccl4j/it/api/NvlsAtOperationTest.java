package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.operation.Operation;

/** NVLS that is made at the first operation that takes it, by the emulation. */
@Timeout(600)
class NvlsAtOperationTest {
  private static final int N = 3;
  private static final int COUNT = 10_001;
  private static final String BUFFERS = "NVLS buffers";
  private static final CommunicatorConfig LATER =
      CommunicatorConfig.defaults()
          .with("NCCL_ALGO", "NVLS")
          .with("NCCL4J_NVLS_CREATE", "operation");

  private static boolean isMade(Communicator comm) {
    return comm.memory().containsKey(BUFFERS);
  }

  private static void assertMade(Ranks ranks, boolean made) {
    ranks.communicators.forEach(comm -> assertEquals(made, isMade(comm), comm.toString()));
  }

  private static void sum(Communicator comm, DeviceMemory data, DeviceStream stream) {
    comm.allReduce(data, data, COUNT, DataType.FLOAT32, RedOp.SUM, stream);
  }

  /** Each rank's numbers: 1, 2, 3, whose sum is 6. */
  private static List<DeviceMemory> numbers(Ranks ranks) {
    List<DeviceMemory> data = new ArrayList<>();
    ranks.communicators.forEach(comm -> data.add(Ranks.floats(COUNT, i -> comm.rank() + 1)));
    return data;
  }

  private static void assertSums(float expected, Ranks ranks, List<DeviceMemory> data) {
    ranks.streams.forEach(DeviceStream::synchronize);
    for (DeviceMemory each : data) {
      float[] sums = Ranks.floats(each);
      assertEquals(expected, sums[0]);
      assertEquals(expected, sums[COUNT - 1]);
      each.close();
    }
  }

  @Test
  void nothingIsMadeBeforeAnOperationTakesIt() throws Exception {
    try (Ranks ranks = new Ranks(N, LATER)) {
      assertMade(ranks, false);
      String table =
          ranks.communicators.get(0).explain(Operation.ALL_REDUCE, COUNT, DataType.FLOAT32);
      assertTrue(table.contains("chosen: NVLS"), table);
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = Ranks.floats(COUNT, i -> comm.rank())) {
              comm.broadcast(data, data, COUNT, DataType.FLOAT32, 1, stream);
              stream.synchronize();
              assertEquals(1, Ranks.floats(data)[COUNT - 1]);
            }
          });
      assertMade(ranks, false);
      List<DeviceMemory> data = numbers(ranks);
      ranks.run((comm, stream) -> sum(comm, data.get(comm.rank()), stream));
      assertSums(6, ranks, data);
      assertMade(ranks, true);
    }
  }

  /** Windows of before and of afterwards are reached by multicast once there is some. */
  @Test
  void operationsInWindowsMakeItAndGoInPlace() throws Exception {
    try (Ranks ranks = new Ranks(N, LATER)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory first = Devices.host().memAlloc(4L * COUNT);
                DeviceMemory second = Devices.host().memAlloc(4L * COUNT)) {
              Window before = comm.registerWindow(first);
              assertInWindows(comm, "NVLS Simple");
              assertFalse(isMade(comm));
              assertMeanInPlace(comm, first, stream);
              assertTrue(isMade(comm));
              Window after = comm.registerWindow(second);
              assertInWindows(comm, "NVLS Simple");
              assertMeanInPlace(comm, second, stream);
              assertMeanInPlace(comm, first, stream);
              comm.deregisterWindowOnAllRanks(after);
              comm.deregisterWindowOnAllRanks(before);
            }
          });
    }
  }

  /** So many windows of before that a rank cannot name all of them at once. */
  @Test
  void allWindowsOfBeforeAreReached() throws Exception {
    try (Ranks ranks = new Ranks(N, LATER)) {
      ranks.run(
          (comm, stream) -> {
            List<DeviceMemory> memories = new ArrayList<>();
            List<Window> windows = new ArrayList<>();
            for (int i = 0; i < 100; i++) {
              memories.add(Devices.host().memAlloc(4L * COUNT));
              windows.add(comm.registerWindow(memories.get(i)));
            }
            for (DeviceMemory memory : memories) {
              assertMeanInPlace(comm, memory, stream);
            }
            windows.forEach(comm::deregisterWindowOnAllRanks);
            memories.forEach(DeviceMemory::close);
          });
    }
  }

  /** A thread of each rank registers windows while another thread's operation makes NVLS. */
  @Test
  void windowsMayBeRegisteredWhileItIsMade() throws Exception {
    try (Ranks ranks = new Ranks(N, LATER)) {
      ranks.run(
          (comm, stream) -> {
            List<DeviceMemory> memories = new ArrayList<>();
            List<Window> windows = new ArrayList<>();
            for (int i = 0; i < 20; i++) {
              memories.add(Devices.host().memAlloc(8L * COUNT));
            }
            CompletableFuture<Void> registered =
                CompletableFuture.runAsync(
                    () -> {
                      for (DeviceMemory memory : memories) {
                        windows.add(comm.registerWindow(memory.slice(0, 4L * COUNT)));
                        windows.add(comm.registerWindow(memory.slice(4L * COUNT, 4L * COUNT)));
                      }
                    },
                    task -> new Thread(task, "registering").start());
            try (DeviceMemory plain = Ranks.floats(COUNT, i -> comm.rank() + 1)) {
              sum(comm, plain, stream);
              stream.synchronize();
            }
            registered.join();
            assertTrue(isMade(comm));
            for (Window window : windows) {
              assertSumInPlace(comm, window.memory(), stream);
              comm.deregisterWindowOnAllRanks(window);
            }
            memories.forEach(DeviceMemory::close);
          });
    }
  }

  private static void assertSumInPlace(Communicator comm, DeviceMemory data, DeviceStream stream) {
    ByteBuffer numbers = ByteBuffer.allocate(4 * COUNT).order(ByteOrder.nativeOrder());
    while (numbers.hasRemaining()) {
      numbers.putFloat(comm.rank() + 1);
    }
    data.write(0, numbers.flip());
    sum(comm, data, stream);
    stream.synchronize();
    for (float sum : Ranks.floats(data)) {
      assertEquals(6, sum);
    }
  }

  private static void assertInWindows(Communicator comm, String way) {
    String table = comm.explain(Operation.ALL_REDUCE, COUNT, DataType.FLOAT32);
    assertTrue(table.contains("chosen with windows: " + way), table);
  }

  /** A mean in place divides the sum; through slots each rank's number is divided. */
  private static void assertMeanInPlace(Communicator comm, DeviceMemory data, DeviceStream stream) {
    float number = 1;
    while (number / N + number / N + number / N == (number + number + number) / N) {
      number = Math.nextUp(number);
    }
    ByteBuffer numbers = ByteBuffer.allocate(4 * COUNT).order(ByteOrder.nativeOrder());
    while (numbers.hasRemaining()) {
      numbers.putFloat(number);
    }
    data.write(0, numbers.flip());
    comm.allReduce(data, data, COUNT, DataType.FLOAT32, RedOp.AVG, stream);
    stream.synchronize();
    for (float mean : Ranks.floats(data)) {
      assertEquals((number + number + number) / N, mean);
    }
  }

  /** A rank whose own operation comes later makes its part all the same. */
  @Test
  void oneThreadMayCallForAllRanksOneAfterTheOther() {
    try (Ranks ranks = new Ranks(N, LATER)) {
      List<DeviceMemory> data = numbers(ranks);
      for (Communicator comm : ranks.communicators) {
        sum(comm, data.get(comm.rank()), ranks.streams.get(comm.rank()));
        assertTrue(isMade(comm), comm.toString());
      }
      assertSums(6, ranks, data);
    }
  }

  @Test
  void oneThreadMayCallGroupsForAllRanks() {
    try (Ranks ranks = new Ranks(N, LATER)) {
      List<DeviceMemory> data = numbers(ranks);
      Group.run(
          () -> {
            for (Communicator comm : ranks.communicators) {
              DeviceStream stream = ranks.streams.get(comm.rank());
              sum(comm, data.get(comm.rank()), stream);
              sum(comm, data.get(comm.rank()), stream);
            }
          });
      assertSums(18, ranks, data);
    }
  }

  /** Calls with options are planned apart, and use the same memory. */
  @Test
  void callsWithOptionsUseIt() throws Exception {
    try (Ranks ranks = new Ranks(N, LATER.with("NCCL_ALGO", "Ring;allreduce:NVLS"))) {
      List<DeviceMemory> data = numbers(ranks);
      CallOptions nvls = CallOptions.defaults().withAlgorithm("NVLS");
      ranks.run(
          (comm, stream) -> {
            DeviceMemory mine = data.get(comm.rank());
            sum(comm, mine, stream);
            comm.withOptions(nvls)
                .allReduce(mine, mine, COUNT, DataType.FLOAT32, RedOp.SUM, stream);
          });
      assertSums(18, ranks, data);
      assertMade(ranks, true);
    }
  }

  /** Ranks that call each other over sockets, with parts that fill several answers. */
  @Test
  void ranksThatMeetOverSocketsMakeItToo() throws Exception {
    try (Ranks ranks = Ranks.onHosts("a".repeat(24), LATER)) {
      assertMade(ranks, false);
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = Ranks.floats(COUNT, i -> 1)) {
              sum(comm, data, stream);
              stream.synchronize();
              assertEquals(24, Ranks.floats(data)[COUNT - 1]);
            }
          });
      assertMade(ranks, true);
    }
  }

  @Test
  void itIsMadeAnewAfterASuspension() throws Exception {
    try (Ranks ranks = new Ranks(N, LATER)) {
      for (int time = 0; time < 2; time++) {
        List<DeviceMemory> data = numbers(ranks);
        ranks.run((comm, stream) -> sum(comm, data.get(comm.rank()), stream));
        assertSums(6, ranks, data);
        assertMade(ranks, true);
        ranks.run((comm, stream) -> comm.suspend());
        ranks.run((comm, stream) -> comm.resume());
        assertMade(ranks, false);
      }
    }
  }

  /** It cannot be made with a rank that has left: the others hear so at once. */
  @Test
  void aRankThatHasClosedIsNamed() {
    List<Communicator> open = new ArrayList<>();
    try (Ranks ranks = new Ranks(N, LATER)) {
      open.addAll(ranks.communicators);
      open.remove(N - 1).close();
      try (DeviceMemory data = Ranks.floats(COUNT, i -> 1)) {
        NcclException error =
            assertThrows(NcclException.class, () -> sum(open.get(1), data, ranks.streams.get(1)));
        assertTrue(error.getMessage().contains("rank 2"), error.getMessage());
        assertFalse(isMade(open.get(1)));
      }
    }
  }

  /** It is refused with the communicator where the settings of the ranks differ. */
  @Test
  void ranksThatDifferHaveNone() throws Exception {
    List<CommunicatorConfig> configs =
        new ArrayList<>(Collections.nCopies(N, LATER.with("NCCL4J_NVLS_MODE", "emulated")));
    configs.set(1, LATER.with("NCCL_NVLS_CHUNKSIZE", "1024"));
    try (Ranks ranks = Ranks.onHosts("aaa", List.of(Devices.host()), configs::get)) {
      List<DeviceMemory> data = numbers(ranks);
      ranks.run((comm, stream) -> sum(comm, data.get(comm.rank()), stream));
      assertSums(6, ranks, data);
      assertMade(ranks, false);
    }
  }
}
