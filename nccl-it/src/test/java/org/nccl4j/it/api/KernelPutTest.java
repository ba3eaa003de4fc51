package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.DeviceCommunicator;
import org.nccl4j.api.DeviceCommunicator.Get;
import org.nccl4j.api.DeviceCommunicator.Put;
import org.nccl4j.api.DeviceCommunicator.Requirements;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Window;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.bind.NativeMemory;

/** Puts, gets and signals of kernels on the host, with ranks of the same host and over sockets. */
@Timeout(600)
class KernelPutTest {
  private static final int WINDOW = (3 << 20) + 4_567;
  private static final int THREADS = 3;
  private static final int PUTS = 12;
  private static final int ROUNDS = 4;
  private static final long SEED = 11;
  private static final byte POISON = (byte) 0xC3;
  private static final Duration PATIENCE = Duration.ofSeconds(300);

  private static Ranks on(String hosts) {
    return Ranks.onHosts(hosts, CommunicatorConfig.defaults());
  }

  /** One put's places in the windows: each thread has a part of its own. */
  private record Piece(int to, int from, int bytes) {}

  private static Piece[] pieces(int rank, int thread, int round) {
    Random random = new Random(SEED + 1000L * round + 10L * rank + thread);
    int part = WINDOW / THREADS;
    Piece[] pieces = new Piece[PUTS];
    for (int put = 0; put < PUTS; put++) {
      // One of them has several messages; some are of odd sizes and few bytes.
      int bytes = put == 0 ? part * 2 / 3 : 1 + random.nextInt(1 << 1 + random.nextInt(14));
      int to = thread * part + random.nextInt(part - bytes + 1);
      pieces[put] = new Piece(to, random.nextInt(WINDOW - bytes + 1), bytes);
    }
    return pieces;
  }

  private static byte[] data(int rank, int round) {
    return RandomBytes.of(SEED + 100L * round + rank, WINDOW);
  }

  /** A kernel's threads: each puts its pieces to the next rank, and then raises its signal. */
  private static void kernel(
      DeviceCommunicator device, int next, Window source, Window target, int rank, int round) {
    CompletableFuture<?>[] threads = new CompletableFuture<?>[THREADS];
    for (int t = 0; t < THREADS; t++) {
      int thread = t;
      threads[t] =
          CompletableFuture.runAsync(
              () -> {
                for (Piece piece : pieces(rank, thread, round)) {
                  Put put = new Put(next, target, piece.to, source, piece.from, piece.bytes);
                  device.put(put, -1, PATIENCE);
                }
                device.signal(next, thread, PATIENCE);
                device.waitSignal(thread, round + 1, PATIENCE);
              },
              task -> new Thread(task).start());
    }
    CompletableFuture.allOf(threads).join();
    device.flush(PATIENCE);
    device.quiet(PATIENCE);
  }

  /** No proxy carries anything between them that could tell a kernel. */
  @Test
  void waitsAmongRanksOfAHostEndWithTheCommunicator() throws Exception {
    CyclicBarrier created = new CyclicBarrier(2);
    try (Ranks ranks = on("aa")) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceCommunicator device =
                comm.createDeviceCommunicator(
                    Requirements.defaults().withBarriers(1).withSignals(1))) {
              created.await(300, TimeUnit.SECONDS);
              if (comm.rank() == 1) {
                comm.abort();
              }
              assertThrows(InvalidUsageException.class, () -> device.waitSignal(0, 1, PATIENCE));
              assertThrows(InvalidUsageException.class, () -> device.barrier(0, PATIENCE));
              assertThrows(InvalidUsageException.class, () -> device.signal(0, 0, PATIENCE));
            }
          });
    }
  }

  /** Ranks of two hosts, each alone, and of two hosts with a team of two ranks each. */
  @ParameterizedTest
  @ValueSource(strings = {"ab", "aabb", "abc"})
  void whatIsPutIsThereAfterTheSignal(String hosts) throws Exception {
    int n = hosts.length();
    try (Ranks ranks = on(hosts)) {
      ranks.run(
          (comm, stream) -> {
            int rank = comm.rank();
            try (DeviceMemory in = Devices.host().memAlloc(WINDOW);
                DeviceMemory out = Devices.host().memAlloc(WINDOW)) {
              Window source = comm.registerWindow(in);
              Window target = comm.registerWindow(out);
              try (DeviceCommunicator device =
                  comm.createDeviceCommunicator(
                      Requirements.defaults().withBarriers(1).withSignals(THREADS + 1))) {
                for (int round = 0; round < ROUNDS; round++) {
                  in.write(0, ByteBuffer.wrap(data(rank, round)));
                  out.fill(POISON);
                  everybody(device, n, 2 * round + 1);
                  int its = round;
                  stream.launchHostFunction(
                      () -> kernel(device, (rank + 1) % n, source, target, rank, its));
                  stream.synchronize();
                  assertArrayEquals(
                      expected((rank + n - 1) % n, round), bytes(out), "seed " + SEED);
                  everybody(device, n, 2 * round + 2);
                }
                assertEquals(ROUNDS, device.signalCount(0));
              }
              comm.deregisterWindowOnAllRanks(source);
              comm.deregisterWindowOnAllRanks(target);
            }
          });
    }
  }

  /**
   * Each rank gets from the next while that takes no part, threads at once, and in one large piece.
   */
  @ParameterizedTest
  @ValueSource(strings = {"ab", "aabb", "a"})
  void whatIsGotIsThereAfterTheFlush(String hosts) throws Exception {
    int n = hosts.length();
    try (Ranks ranks = on(hosts)) {
      ranks.run(
          (comm, stream) -> {
            int rank = comm.rank();
            try (DeviceMemory in = Devices.host().memAlloc(WINDOW);
                DeviceMemory out = Devices.host().memAlloc(WINDOW)) {
              Window source = comm.registerWindow(in);
              Window target = comm.registerWindow(out);
              try (DeviceCommunicator device =
                  comm.createDeviceCommunicator(Requirements.defaults().withSignals(THREADS + 1))) {
                for (int round = 0; round < ROUNDS; round++) {
                  in.write(0, ByteBuffer.wrap(data(rank, round)));
                  out.fill(POISON);
                  everybody(device, n, 2 * round + 1);
                  getPieces(device, rank, n, source, target, round);
                  assertArrayEquals(gotten(rank, n, round), bytes(out), "seed " + SEED);
                  everybody(device, n, 2 * round + 2);
                }
              }
              comm.deregisterWindowOnAllRanks(source);
              comm.deregisterWindowOnAllRanks(target);
            }
          });
    }
  }

  private static void getPieces(
      DeviceCommunicator device, int rank, int n, Window source, Window target, int round) {
    CompletableFuture<?>[] threads = new CompletableFuture<?>[THREADS];
    for (int t = 0; t < THREADS; t++) {
      int thread = t;
      threads[t] =
          CompletableFuture.runAsync(
              () -> {
                for (Piece piece : pieces(rank, thread, round)) {
                  device.get(
                      new Get((rank + 1) % n, source, piece.from, target, piece.to, piece.bytes),
                      PATIENCE);
                }
                device.flush(PATIENCE);
              },
              task -> new Thread(task).start());
    }
    CompletableFuture.allOf(threads).join();
  }

  private static byte[] gotten(int rank, int n, int round) {
    byte[] expected = new byte[WINDOW];
    Arrays.fill(expected, POISON);
    byte[] data = data((rank + 1) % n, round);
    for (int thread = 0; thread < THREADS; thread++) {
      for (Piece piece : pieces(rank, thread, round)) {
        System.arraycopy(data, piece.from, expected, piece.to, piece.bytes);
      }
    }
    return expected;
  }

  /** The other rank is gone while this one goes on getting. */
  @Test
  void getsFromARankThatIsGoneEnd() throws Exception {
    CyclicBarrier begun = new CyclicBarrier(2);
    // Their windows are in use until the communicators are closed.
    List<DeviceMemory> memories =
        List.of(Devices.host().memAlloc(WINDOW), Devices.host().memAlloc(WINDOW));
    try (Ranks ranks = on("ab")) {
      ranks.run(
          (comm, stream) -> {
            DeviceMemory memory = memories.get(comm.rank());
            Window window = comm.registerWindow(memory);
            DeviceCommunicator device =
                comm.createDeviceCommunicator(Requirements.defaults().withSignals(1));
            if (comm.rank() == 0) {
              Get get = new Get(1, window, 0, window, 0, WINDOW);
              device.get(get, PATIENCE);
              begun.await(300, TimeUnit.SECONDS);
              long endNanos = System.nanoTime() + TimeUnit.SECONDS.toNanos(300);
              var error =
                  assertThrows(
                      InvalidUsageException.class,
                      () -> {
                        while (System.nanoTime() - endNanos < 0) {
                          for (int each = 0; each < 20; each++) {
                            device.get(get, PATIENCE);
                          }
                          device.flush(PATIENCE);
                        }
                      });
              assertTrue(error.getMessage().contains("has failed"), error.getMessage());
            } else {
              begun.await(300, TimeUnit.SECONDS);
              comm.abort();
            }
            device.close();
          });
    }
    memories.forEach(DeviceMemory::close);
  }

  /** All ranks raise the last signal of all. */
  private static void everybody(DeviceCommunicator device, int n, int times) {
    for (int rank = 0; rank < n; rank++) {
      device.signal(rank, THREADS, PATIENCE);
    }
    device.waitSignal(THREADS, (long) n * times, PATIENCE);
    device.quiet(PATIENCE);
  }

  private static byte[] expected(int from, int round) {
    byte[] expected = new byte[WINDOW];
    Arrays.fill(expected, POISON);
    byte[] data = data(from, round);
    for (int thread = 0; thread < THREADS; thread++) {
      for (Piece piece : pieces(from, thread, round)) {
        System.arraycopy(data, piece.from, expected, piece.to, piece.bytes);
      }
    }
    return expected;
  }

  private static byte[] bytes(DeviceMemory memory) {
    ByteBuffer bytes = ByteBuffer.allocate((int) memory.size());
    memory.read(0, bytes);
    return bytes.array();
  }

  /** More puts than the ring has places, as fast as a thread can. */
  @Test
  void aRingThatIsFullIsWaitedFor() throws Exception {
    try (Ranks ranks = on("ab")) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceCommunicator device =
                comm.createDeviceCommunicator(Requirements.defaults().withSignals(1))) {
              for (int i = 0; i < 3000; i++) {
                device.signal(1 - comm.rank(), 0, PATIENCE);
              }
              device.waitSignal(0, 3000, PATIENCE);
              device.quiet(PATIENCE);
              assertEquals(3000, device.signalCount(0));
            }
          });
    }
  }

  @Test
  void aSignalThatIsNotRaisedIsATimeout() throws Exception {
    try (Ranks ranks = on("ab")) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceCommunicator device =
                comm.createDeviceCommunicator(Requirements.defaults().withSignals(2))) {
              var error =
                  assertThrows(
                      TimeoutException.class, () -> device.waitSignal(1, 5, Duration.ofMillis(30)));
              assertTrue(
                  error.getMessage().contains("signal 1 was raised 0 times, not 5"),
                  error.getMessage());
            }
          });
    }
  }

  @Test
  void argumentsAreChecked() throws Exception {
    try (Ranks ranks = on("ab")) {
      ranks.run(
          (comm, stream) -> {
            int peer = 1 - comm.rank();
            try (DeviceMemory memory = Devices.host().memAlloc(100)) {
              Window window = comm.registerWindow(memory);
              DeviceCommunicator device =
                  comm.createDeviceCommunicator(Requirements.defaults().withSignals(2));
              for (Put wrong :
                  List.of(
                      new Put(2, window, 0, window, 0, 8),
                      new Put(-1, window, 0, window, 0, 8),
                      new Put(peer, window, 93, window, 0, 8),
                      new Put(peer, window, 0, window, 93, 8),
                      new Put(peer, window, 0, window, 0, -1),
                      new Put(peer, null, 0, window, 0, 1))) {
                assertThrows(InvalidArgumentException.class, () -> device.put(wrong, 0, PATIENCE));
              }
              for (Get wrong :
                  List.of(
                      new Get(2, window, 0, window, 0, 8),
                      new Get(-1, window, 0, window, 0, 8),
                      new Get(peer, window, 93, window, 0, 8),
                      new Get(peer, window, 0, window, 93, 8),
                      new Get(peer, window, 0, window, 0, -1),
                      new Get(peer, window, 0, null, 0, 1))) {
                assertThrows(InvalidArgumentException.class, () -> device.get(wrong, PATIENCE));
              }
              device.get(new Get(peer, null, 0, null, 0, 0), PATIENCE); // nothing to do
              assertThrows(InvalidArgumentException.class, () -> device.signal(peer, 2, PATIENCE));
              assertThrows(
                  InvalidArgumentException.class, () -> device.waitSignal(-1, 1, PATIENCE));
              try (DeviceCommunicator without =
                  comm.createDeviceCommunicator(Requirements.defaults())) {
                assertThrows(
                    InvalidArgumentException.class,
                    () -> without.put(new Put(peer, window, 0, window, 0, 8), -1, PATIENCE));
                assertThrows(
                    InvalidArgumentException.class,
                    () -> without.get(new Get(peer, window, 0, window, 0, 8), PATIENCE));
              }
              device.close();
              assertThrows(InvalidUsageException.class, () -> device.signal(peer, 0, PATIENCE));
              assertThrows(
                  InvalidUsageException.class,
                  () -> device.get(new Get(peer, window, 0, window, 0, 8), PATIENCE));
              comm.deregisterWindowOnAllRanks(window);
            }
          });
    }
  }

  /** As a kernel of a GPU would that does not use the header's Gin. */
  @Test
  void aDescriptorThatMakesNoSenseFailsTheCommunicatorWithTheReason() throws Exception {
    try (Ranks ranks = on("ab")) {
      ranks.run(
          (comm, stream) -> {
            DeviceCommunicator device =
                comm.createDeviceCommunicator(Requirements.defaults().withSignals(1));
            if (comm.rank() == 0) {
              ByteBuffer words = ByteBuffer.allocate(136).order(ByteOrder.nativeOrder());
              Devices.host().wrap(device.address(), 136).read(0, words);
              assertEquals(4, words.getInt(92), "NCCL4J_DEVICE_VERSION");
              long ring = words.getLong(96);
              long descriptor = ring + words.getLong(104);
              NativeMemory.putInt(descriptor + 8, 7);
              NativeMemory.putLong(descriptor, 1);
            }
            var waiting =
                assertThrows(InvalidUsageException.class, () -> device.waitSignal(0, 1, PATIENCE));
            assertTrue(waiting.getMessage().contains("has failed"), waiting.getMessage());
            var error =
                assertThrows(
                    NcclException.class,
                    () -> comm.createDeviceCommunicator(Requirements.defaults().withBarriers(1)));
            assertTrue(error.getMessage().contains("is for rank 7 of 2"), error.getMessage());
            device.close();
          });
    }
  }

  /** One after the other, and several at once. */
  @Test
  void deviceCommunicatorsHaveSignalsOfTheirOwn() throws Exception {
    try (Ranks ranks = on("ab")) {
      ranks.run(
          (comm, stream) -> {
            int peer = 1 - comm.rank();
            for (int round = 0; round < 5; round++) {
              try (DeviceCommunicator first =
                      comm.createDeviceCommunicator(Requirements.defaults().withSignals(1));
                  DeviceCommunicator second =
                      comm.createDeviceCommunicator(Requirements.defaults().withSignals(3))) {
                second.signal(peer, 2, PATIENCE);
                first.signal(peer, 0, PATIENCE);
                first.waitSignal(0, 1, PATIENCE);
                second.waitSignal(2, 1, PATIENCE);
                assertEquals(0, second.signalCount(0));
                first.quiet(PATIENCE);
                second.quiet(PATIENCE);
              }
            }
          });
    }
  }
}
