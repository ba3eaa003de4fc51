package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;

/** Ranks on hosts of their own that put into each other's windows, which connects them. */
@Timeout(600)
class RuntimePutTest {
  private static final CommunicatorConfig SOCKETS =
      CommunicatorConfig.defaults().with("NCCL_SHM_DISABLE", "1");

  /** Windows of all ranks, with a place for an element of each rank, and the elements to put. */
  private static final class Windows implements AutoCloseable {
    final Ranks ranks;
    final List<DeviceMemory> memories = new ArrayList<>();
    final List<DeviceMemory> sources = new ArrayList<>();
    final List<Window> windows;

    Windows(Ranks ranks) {
      this.ranks = ranks;
      int n = ranks.communicators.size();
      for (int rank = 0; rank < n; rank++) {
        int own = rank;
        memories.add(Devices.host().memAlloc(4L * n));
        fill(memories.get(rank));
        sources.add(Ranks.floats(n, to -> 1000 * own + to));
      }
      windows = Ranks.all(ranks.communicators, c -> c.registerWindow(memories.get(c.rank())));
    }

    private static void fill(DeviceMemory memory) {
      int n = (int) memory.size() / 4;
      ByteBuffer data = ByteBuffer.allocate(4 * n).order(ByteOrder.nativeOrder());
      IntStream.range(0, n).forEach(i -> data.putFloat(-1));
      memory.write(0, data.flip());
    }

    /** Puts the element for a rank into its window, and signals it. */
    void put(int from, int to) {
      ranks
          .communicators
          .get(from)
          .putSignal(
              sources.get(from).slice(4L * to, 4),
              1,
              DataType.FLOAT32,
              to,
              windows.get(from),
              4L * from,
              ranks.streams.get(from));
    }

    /** Waits for a signal of some ranks, and checks that their elements are in the window. */
    void awaitAndCheck(int rank, List<Integer> froms) {
      Map<Integer, Integer> signals = new HashMap<>();
      froms.forEach(from -> signals.put(from, 1));
      ranks.communicators.get(rank).waitSignal(signals, ranks.streams.get(rank));
      ranks.streams.get(rank).synchronize();
      check(rank, froms);
    }

    /** The window has the elements of some ranks, and nothing else. */
    void check(int rank, List<Integer> froms) {
      float[] expected = new float[ranks.communicators.size()];
      for (int from = 0; from < expected.length; from++) {
        expected[from] = froms.contains(from) ? 1000 * from + rank : -1;
      }
      assertArrayEquals(expected, Ranks.floats(memories.get(rank)));
    }

    @Override
    public void close() {
      ranks.close();
      memories.forEach(DeviceMemory::close);
      sources.forEach(DeviceMemory::close);
    }
  }

  private static Ranks ranks(int n, CommunicatorConfig config) {
    return RuntimeConnectTest.ranks(n, config);
  }

  /** Waits until there are at most so many sockets, and one of the JDK's own. */
  private static void awaitAtMost(long most, String why) throws Exception {
    RuntimeConnectTest.awaitAtMost(most + 1, why);
  }

  @Test
  @EnabledOnOs(OS.LINUX)
  void aPutConnectsItsTwoRanksAndNoOthers() throws Exception {
    int n = 16;
    try (Ranks ranks = ranks(n, SOCKETS)) {
      long made = RuntimeConnectTest.sockets();
      try (Windows windows = new Windows(ranks)) {
        awaitAtMost(made, "a window connects nobody");
        for (int round = 0; round < 2; round++) {
          ranks.run(
              (communicator, stream) -> {
                int rank = communicator.rank();
                int other = rank ^ 1;
                windows.put(rank, other);
                windows.awaitAndCheck(rank, List.of(other));
              });
          awaitAtMost(made + 2 * n, "a socket each way between two ranks");
        }
      }
    }
  }

  @Test
  @EnabledOnOs(OS.LINUX)
  void aSettingConnectsAllAtTheFirstWindow() throws Exception {
    int n = 6;
    try (Ranks ranks = ranks(n, SOCKETS.with("NCCL_RUNTIME_CONNECT", "0"))) {
      long made = RuntimeConnectTest.sockets();
      try (Windows windows = new Windows(ranks)) {
        long connected = RuntimeConnectTest.sockets();
        assertTrue(connected - made >= (long) n * (n - 1), "a window connects all");
        windows.put(0, 3);
        windows.awaitAndCheck(3, List.of(0));
        awaitAtMost(connected, "a put connects nobody");
      }
    }
  }

  /** Every rank connects with several at a time, each pair from both sides. */
  @Test
  void allPairsConnectAtOnce() throws Exception {
    int n = 8;
    try (Windows windows = new Windows(ranks(n, SOCKETS))) {
      windows.ranks.run(
          (communicator, stream) -> {
            int rank = communicator.rank();
            List<Integer> others = IntStream.range(0, n).filter(r -> r != rank).boxed().toList();
            others.forEach(to -> windows.put(rank, to));
            windows.awaitAndCheck(rank, others);
          });
    }
  }

  /** One thread calls for both: no rank's call waits for a call of the other. */
  @Test
  void theOtherRankNeedNotCallAnything() {
    try (Windows windows = new Windows(ranks(6, SOCKETS))) {
      windows.put(1, 4);
      windows.ranks.communicators.get(4).signal(2, windows.ranks.streams.get(4));
      windows.ranks.communicators.get(2).waitSignal(Map.of(4, 1), windows.ranks.streams.get(2));
      windows.ranks.streams.get(2).synchronize();
      windows.awaitAndCheck(4, List.of(1));
    }
  }

  /** Rank 3 is inside a collective call that waits for the rank that puts into its window. */
  @Test
  void aRankInAnExchangeIsConnected() throws Exception {
    try (Windows windows = new Windows(ranks(6, SOCKETS))) {
      windows.ranks.run(
          (communicator, stream) -> {
            if (communicator.rank() == 0) {
              windows.put(0, 3);
              stream.synchronize();
            }
            communicator.deregisterWindowOnAllRanks(windows.windows.get(communicator.rank()));
          });
      windows.check(3, List.of(0));
    }
  }

  /** Rank 3's kernel waits for the rank that puts into its window before it takes part. */
  @Test
  void aRankInACollectiveIsConnected() throws Exception {
    int n = 6;
    try (Windows windows = new Windows(ranks(n, SOCKETS))) {
      windows.ranks.run(
          (communicator, stream) -> {
            int rank = communicator.rank();
            if (rank == 0) {
              windows.put(0, 3);
              stream.synchronize();
            }
            try (DeviceMemory data = Ranks.floats(1, i -> 1)) {
              communicator.allReduce(data, data, 1, DataType.FLOAT32, RedOp.SUM, stream);
              stream.synchronize();
              assertEquals(n, Ranks.floats(data)[0]);
            }
          });
      windows.awaitAndCheck(3, List.of(0));
    }
  }

  @Test
  void aClosedRankIsNamedAtOnce() {
    try (Windows windows = new Windows(ranks(6, SOCKETS))) {
      windows.ranks.communicators.get(4).close();
      NcclException e = assertThrows(NcclException.class, () -> windows.put(1, 4));
      assertEquals(ErrorId.UNREACHABLE, e.id(), e::getMessage);
      assertTrue(e.getMessage().contains("cannot call rank 4"), e::getMessage);
    }
  }

  /** The thread may call nothing else for a long time. */
  @Test
  void aPutThatFailsDoesNotKeepItsSource() {
    try (Windows windows = new Windows(ranks(6, SOCKETS))) {
      windows.ranks.communicators.get(4).close();
      Collected.await(putInVain(windows));
    }
  }

  private static WeakReference<DeviceMemory> putInVain(Windows windows) {
    DeviceMemory source = Ranks.floats(1, i -> 1);
    assertThrows(
        NcclException.class,
        () ->
            windows
                .ranks
                .communicators
                .get(1)
                .putSignal(
                    source,
                    1,
                    DataType.FLOAT32,
                    4,
                    windows.windows.get(1),
                    0,
                    windows.ranks.streams.get(1)));
    return new WeakReference<>(source);
  }

  /** A wait connects too, so it is told at once. */
  @Test
  void aWaitForAClosedRankEndsAtOnce() {
    try (Windows windows = new Windows(ranks(6, SOCKETS))) {
      windows.ranks.communicators.get(4).close();
      NcclException e =
          assertThrows(
              NcclException.class,
              () ->
                  windows
                      .ranks
                      .communicators
                      .get(1)
                      .waitSignal(Map.of(4, 1), windows.ranks.streams.get(1)));
      assertEquals(ErrorId.UNREACHABLE, e.id(), e::getMessage);
    }
  }

  /** Rank 4 is aborted while the others connect with it. */
  @Test
  void aRankThatDiesInTheMiddleEndsAllCalls() throws Exception {
    int n = 8;
    try (Windows windows = new Windows(ranks(n, SOCKETS))) {
      List<FutureTask<Void>> tasks =
          windows.ranks.start(
              (communicator, stream) -> {
                int rank = communicator.rank();
                if (rank == 4) {
                  communicator.abort();
                  return;
                }
                while (true) {
                  windows.put(rank, 4);
                  stream.synchronize();
                }
              });
      for (int rank = 0; rank < n; rank++) {
        FutureTask<Void> task = tasks.get(rank);
        if (rank == 4) {
          task.get(Ranks.PATIENCE_NANOS, TimeUnit.NANOSECONDS);
        } else {
          ExecutionException e =
              assertThrows(
                  ExecutionException.class,
                  () -> task.get(Ranks.PATIENCE_NANOS, TimeUnit.NANOSECONDS));
          assertTrue(e.getCause() instanceof NcclException, e::toString);
          assertTrue(e.getCause().getMessage().contains("rank 4"), e::toString);
        }
      }
    }
  }

  /** Two ranks are neighbours, so that their settings first matter at the first window. */
  @Test
  void ranksWithDifferentSettingsAreTold() throws Exception {
    Ranks two =
        Ranks.onHosts(
            "ab",
            List.of(Devices.host()),
            rank -> SOCKETS.with("NCCL_RUNTIME_CONNECT", Integer.toString(rank)));
    try (Ranks ranks = two;
        DeviceMemory memory = Devices.host().memAlloc(8)) {
      List<FutureTask<Void>> tasks =
          ranks.start((communicator, stream) -> communicator.registerWindow(memory));
      for (FutureTask<Void> task : tasks) {
        ExecutionException e =
            assertThrows(
                ExecutionException.class,
                () -> task.get(Ranks.PATIENCE_NANOS, TimeUnit.NANOSECONDS));
        assertTrue(e.getCause().getMessage().contains("NCCL_RUNTIME_CONNECT"), e::toString);
      }
    }
  }
}
