package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidUsageException;

/** Windows through the user's API, ranks as threads. */
@Timeout(600)
class WindowTest {
  private static final int N = 3;

  private static DeviceMemory alloc(long bytes) {
    return Devices.host().memAlloc(bytes);
  }

  @Test
  void everyRankSeesEveryRanksMemory() throws Exception {
    try (Ranks ranks = new Ranks(N)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory memory = alloc(100_000)) {
              memory.fill((byte) (comm.rank() + 1));
              Window window = comm.registerWindow(memory);
              assertEquals(1, window.number());
              assertEquals(100_000, window.size());
              for (int peer = 0; peer < N; peer++) {
                assertEquals(peer + 1, byteAt(window.peer(peer), 99_999));
              }
              comm.deregisterWindowOnAllRanks(window);
              assertFalse(window.isRegistered());
            }
          });
    }
  }

  @Test
  void oneThreadReleasesTheWindowsOfOneRankAfterTheOther() {
    List<Communicator> comms =
        Communicator.initAll(List.of(Devices.host(), Devices.host(), Devices.host()));
    List<DeviceMemory> memories = List.of(alloc(4096), alloc(4096), alloc(4096));
    for (int time = 0; time < 3; time++) {
      List<Window> windows = new ArrayList<>();
      Group.run(
          () -> {
            for (int rank = 0; rank < N; rank++) {
              windows.add(comms.get(rank).registerWindow(memories.get(rank)));
            }
          });
      for (int rank = 0; rank < N; rank++) {
        comms.get(rank).deregisterWindow(windows.get(rank));
        assertFalse(windows.get(rank).isRegistered());
      }
      assertThrows(
          InvalidUsageException.class, () -> comms.get(0).deregisterWindow(windows.get(0)));
      assertThrows(
          InvalidUsageException.class,
          () -> comms.get(0).deregisterWindowOnAllRanks(windows.get(0)));
    }
    comms.forEach(Communicator::close);
    memories.forEach(DeviceMemory::close);
  }

  private static int byteAt(DeviceMemory memory, long offset) {
    ByteBuffer one = ByteBuffer.allocate(1);
    memory.read(offset, one);
    return one.get(0);
  }

  @Test
  void severalWindowsOfOneAllocationShareItsMapping() throws Exception {
    try (Ranks ranks = new Ranks(N)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory memory = alloc(1 << 20)) {
              Window all = comm.registerWindow(memory);
              Window part = comm.registerWindow(memory.slice(4096, 100));
              Window odd = comm.registerWindow(memory.slice(12_345, 77));
              int next = (comm.rank() + 1) % N;
              assertEquals(all.peer(next).address() + 4096, part.peer(next).address());
              assertEquals(all.peer(next).address() + 12_345, odd.peer(next).address());
              comm.deregisterWindowOnAllRanks(all);
              odd.peer(next).fill((byte) 9); // still mapped
              comm.deregisterWindowOnAllRanks(odd);
              comm.deregisterWindowOnAllRanks(part);
            }
          });
    }
  }

  @Test
  void oneThreadRegistersForAllRanksInAGroup() {
    try (Ranks ranks = new Ranks(N)) {
      List<DeviceMemory> memories = new ArrayList<>();
      List<Window> windows = new ArrayList<>();
      Group.run(
          () -> {
            for (int rank = 0; rank < N; rank++) {
              memories.add(alloc(1000));
              windows.add(ranks.communicators.get(rank).registerWindow(memories.get(rank)));
            }
            assertThrows(InvalidUsageException.class, () -> windows.get(0).peer(1));
          });
      windows.get(0).peer(2).fill((byte) 5);
      assertEquals(5, byteAt(memories.get(2), 999));
      Group.run(
          () -> {
            for (int rank = 0; rank < N; rank++) {
              ranks.communicators.get(rank).deregisterWindowOnAllRanks(windows.get(rank));
            }
          });
      memories.forEach(DeviceMemory::close);
    }
  }

  @Test
  void putsArriveBeforeTheirSignals() throws Exception {
    int count = 100_000;
    try (Ranks ranks = new Ranks(N)) {
      ranks.run(
          (comm, stream) -> {
            int rank = comm.rank();
            int next = (rank + 1) % N;
            int previous = (rank + N - 1) % N;
            try (DeviceMemory memory = alloc(4L * count);
                DeviceMemory source = Ranks.floats(count, i -> rank * 1000 + i)) {
              Window window = comm.registerWindow(memory);
              for (int round = 0; round < 20; round++) {
                int half = count / 2;
                DeviceMemory first = source.slice(0, 4L * half);
                DeviceMemory rest = source.slice(4L * half, 4L * half);
                comm.putSignal(first, half, DataType.FLOAT32, next, window, 0, stream);
                comm.putSignal(rest, half, DataType.FLOAT32, next, window, 4L * half, stream);
                comm.waitSignal(Map.of(previous, 2), stream);
                comm.signal(previous, stream); // it may write again
                stream.synchronize();
                float[] got = Ranks.floats(memory);
                for (int i = 0; i < count; i++) {
                  assertEquals(previous * 1000 + i, got[i]);
                }
                memory.fill((byte) 0);
                comm.waitSignal(Map.of(next, 1), stream);
                comm.signal(next, stream);
                comm.signal(previous, stream);
                comm.waitSignal(Map.of(next, 1, previous, 1), stream);
              }
              stream.synchronize();
              comm.deregisterWindowOnAllRanks(window);
            }
          });
    }
  }

  /**
   * Many windows of many allocations, dropped in random order: nothing is left, nothing overlaps.
   */
  @Test
  void randomWindows() throws Exception {
    long seed = 4711;
    long before;
    long after;
    SharedSegments more;
    try (Ranks ranks = new Ranks(N)) {
      ranks.run((comm, stream) -> churn(comm, new Random(seed), 20));
      before = count("/proc/self/fd");
      SharedSegments mapped = SharedSegments.now();
      ranks.run((comm, stream) -> churn(comm, new Random(seed + 1), 400));
      long end = System.nanoTime() + Ranks.PATIENCE_NANOS;
      do { // other descriptors of this process may close a moment later
        after = count("/proc/self/fd");
      } while (after > before + 5 && System.nanoTime() < end);
      more = SharedSegments.now().since(mapped);
    }
    assertTrue(after <= before + 5, "descriptors: %d, %d".formatted(before, after));
    assertTrue(more.isEmpty(), more.toString());
  }

  private static long count(String directory) throws IOException {
    try (Stream<Path> files = Files.list(Path.of(directory))) {
      return files.count();
    }
  }

  private static void churn(Communicator comm, Random random, int steps) {
    List<DeviceMemory> memories = new ArrayList<>();
    for (int m = 0; m < 4; m++) {
      memories.add(alloc(1 + random.nextInt(50_000)));
    }
    List<Window> windows = new ArrayList<>();
    for (int step = 0; step < steps; step++) {
      if (windows.size() < 2 || (windows.size() < 12 && random.nextBoolean())) {
        DeviceMemory memory = memories.get(random.nextInt(memories.size()));
        long offset = random.nextInt((int) memory.size());
        long bytes = 1 + random.nextInt((int) (memory.size() - offset));
        windows.add(comm.registerWindow(memory.slice(offset, bytes)));
      } else {
        comm.deregisterWindowOnAllRanks(windows.remove(random.nextInt(windows.size())));
      }
      Window last = windows.get(windows.size() - 1);
      last.memory().write(0, ByteBuffer.wrap(new byte[] {(byte) step}));
      assertEquals((byte) step, byteAt(last.peer(comm.rank()), 0));
    }
    windows.forEach(comm::deregisterWindowOnAllRanks);
    memories.forEach(DeviceMemory::close);
  }

  /** Others may be under way all the time. */
  @Test
  void windowsAreDeregisteredWhenTheirOwnOperationsHaveEnded() {
    try (Ranks ranks = new Ranks(2);
        DeviceStream stream = Devices.host().createStream();
        DeviceStream other = Devices.host().createStream();
        DeviceMemory data = alloc(4096)) {
      Communicator waiting = ranks.communicators.get(0);
      Communicator sending = ranks.communicators.get(1);
      List<DeviceMemory> memories = List.of(alloc(4096), alloc(4096));
      List<Window> windows = new ArrayList<>();
      Group.run(
          () -> {
            windows.add(waiting.registerWindow(memories.get(0)));
            windows.add(sending.registerWindow(memories.get(1)));
          });
      waiting.putSignal(data, 1, DataType.FLOAT32, 1, windows.get(0), 0, stream);
      stream.synchronize();
      waiting.recv(data, 1, DataType.FLOAT32, 1, other);
      Group.run(
          () -> {
            waiting.deregisterWindowOnAllRanks(windows.get(0));
            sending.deregisterWindowOnAllRanks(windows.get(1));
          });
      assertFalse(windows.get(0).isRegistered());
      sending.send(data, 1, DataType.FLOAT32, 0, stream);
      stream.synchronize();
      other.synchronize();
      memories.forEach(DeviceMemory::close);
    }
  }

  /** Its addresses are unmapped then. */
  @Test
  void memoryOfAPeersWindowIsClosedWithTheWindow() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory memory = comm.device().memAlloc(4096);
                DeviceMemory other = comm.device().memAlloc(4096)) {
              Window first = comm.registerWindow(memory);
              DeviceMemory deregistered = first.peer(1 - comm.rank());
              DeviceMemory part = deregistered.slice(64, 64);
              comm.deregisterWindowOnAllRanks(first);
              assertIsClosed(deregistered);
              assertIsClosed(part);
              DeviceMemory left = comm.registerWindow(other).peer(1 - comm.rank());
              comm.close();
              assertIsClosed(left);
            }
          });
    }
  }

  private static void assertIsClosed(DeviceMemory memory) {
    assertFalse(memory.isOpen());
    ByteBuffer into = ByteBuffer.allocate(8);
    assertThrows(InvalidUsageException.class, () -> memory.read(0, into));
  }
}
