package org.nccl4j.it.device;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.function.IntFunction;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.DeviceCommunicator;
import org.nccl4j.api.DeviceCommunicator.Requirements;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.api.Window;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.cuda.CudaDevice;

/**
 * Example: a user's kernels put into windows of GPUs of another host, and get from them, over
 * sockets. Random data, odd sizes and offsets, poisoned windows of which every byte is looked at.
 */
@Tag("gpu")
@Tag("two-gpus")
@Timeout(600)
class OwnPutsGpuTest {
  private static final int BLOCKS = 8;
  private static final int PUTS = 64;
  private static final int ROOM = 40_000; // of each put, in both windows
  private static final int LARGE = 3 << 20; // of one more put, which has many messages
  private static final int WINDOW = PUTS * ROOM + LARGE + 4096;
  private static final int NUMBERS = 1_000_003;
  private static final int ROUNDS = 6;
  private static final byte POISON = (byte) 0xD7;
  private static final long SEED = 29;

  private CyclicBarrier meeting;
  private byte[] cubin;

  /** A rank's work on its thread. */
  private interface Body {
    void run(Communicator comm, OwnKernel kernels);
  }

  /** Runs ranks on GPUs, as many on each host. */
  private void on(int ranks, int ofHost, Path folder, Body body) throws Exception {
    List<CudaDevice> gpus = Devices.cuda().list();
    assumeTrue(gpus.size() >= ranks, "needs %d GPUs".formatted(ranks));
    cubin = OwnKernel.compile("own_puts.cu", folder, "native");
    meeting = new CyclicBarrier(ranks);
    UniqueId id = UniqueId.create();
    List<CompletableFuture<Void>> running = new ArrayList<>();
    for (int rank = 0; rank < ranks; rank++) {
      int own = rank;
      CommunicatorConfig config =
          CommunicatorConfig.defaults()
              .withTransports(List.of("NET"))
              .with("NCCL_HOSTID", "host" + rank / ofHost)
              .with("NCCL_SOCKET_IFNAME", "lo")
              .withOperationTimeout(Duration.ofSeconds(30));
      running.add(
          CompletableFuture.runAsync(
              () -> {
                try (Communicator comm =
                    Communicator.initRank(ranks, id, own, gpus.get(own), config)) {
                  body.run(comm, OwnKernel.load(gpus.get(own), cubin));
                  meet();
                }
              },
              task -> new Thread(task, "rank " + own).start()));
    }
    for (CompletableFuture<Void> each : running) {
      each.get(300, TimeUnit.SECONDS);
    }
  }

  private void meet() {
    try {
      meeting.await(300, TimeUnit.SECONDS);
    } catch (Exception e) {
      throw new AssertionError(e);
    }
  }

  @Test
  void kernelsPutToTheOtherHost(@TempDir Path folder) throws Exception {
    on(2, 1, folder, this::puts);
  }

  /** Every second put is for a rank of the same host, into whose window kernels store. */
  @Test
  void kernelsPutToBothHosts(@TempDir Path folder) throws Exception {
    on(4, 2, folder, this::puts);
  }

  @Test
  void kernelsGetFromTheOtherHost(@TempDir Path folder) throws Exception {
    on(2, 1, folder, this::gets);
  }

  /** Every second rank gets from one of the same host, whose window its kernel loads. */
  @Test
  void kernelsGetFromBothHosts(@TempDir Path folder) throws Exception {
    on(4, 2, folder, this::gets);
  }

  @Test
  void kernelsExchangeAndAddUp(@TempDir Path folder) throws Exception {
    on(2, 1, folder, this::exchange);
  }

  @Test
  void aWaitInVainEndsAndIsExplained(@TempDir Path folder) throws Exception {
    on(2, 1, folder, this::vainWait);
  }

  /** A put of the list: both places are in parts of the windows that no other put has. */
  private record Piece(int to, int from, int bytes) {}

  private static List<Piece> pieces(int rank, int round) {
    Random random = new Random(SEED + 100L * round + rank);
    List<Piece> pieces = new ArrayList<>();
    for (int put = 0; put < PUTS; put++) {
      int bytes = 1 + random.nextInt(put % 4 == 0 ? 64 : ROOM - 64);
      pieces.add(new Piece(put * ROOM + random.nextInt(64), put * ROOM + put % 61, bytes));
    }
    pieces.add(new Piece(PUTS * ROOM + 1 + round, PUTS * ROOM + 17, LARGE - 5 * round));
    return pieces;
  }

  private static byte[] data(int rank, int round) {
    byte[] data = new byte[WINDOW];
    new Random(SEED + 10L * round + rank).nextBytes(data);
    return data;
  }

  /** The kernel inverts some bits of the source before it puts it, or of what it has got. */
  private static byte[] expected(int pieces, int source, int round) {
    byte[] expected = new byte[WINDOW];
    Arrays.fill(expected, POISON);
    byte[] data = data(source, round);
    for (Piece piece : pieces(pieces, round)) {
      for (int i = 0; i < piece.bytes; i++) {
        expected[piece.to + i] = (byte) (data[piece.from + i] ^ 0x5A);
      }
    }
    return expected;
  }

  private void puts(Communicator comm, OwnKernel kernels) {
    int before = (comm.rank() + comm.nRanks() - 1) % comm.nRanks();
    movePieces(comm, kernels, "ownPuts", round -> expected(before, before, round));
  }

  private void gets(Communicator comm, OwnKernel kernels) {
    int next = (comm.rank() + 1) % comm.nRanks();
    movePieces(comm, kernels, "ownGets", round -> expected(comm.rank(), next, round));
  }

  private void movePieces(
      Communicator comm, OwnKernel kernels, String kernel, IntFunction<byte[]> expected) {
    CudaDevice device = (CudaDevice) comm.device();
    int rank = comm.rank();
    try (DeviceMemory in = device.memAlloc(WINDOW);
        DeviceMemory out = device.memAlloc(WINDOW);
        DeviceMemory list = device.allocate(16L * (PUTS + 1));
        DeviceMemory failed = device.allocate(4)) {
      Window from = comm.registerWindow(in);
      Window to = comm.registerWindow(out);
      try (DeviceCommunicator own =
          comm.createDeviceCommunicator(Requirements.defaults().withSignals(BLOCKS))) {
        long[] windows = {from.deviceHandle(), to.deviceHandle()};
        for (int round = 0; round < ROUNDS; round++) {
          in.write(0, ByteBuffer.wrap(data(rank, round)));
          out.fill(POISON);
          ByteBuffer puts = ByteBuffer.allocateDirect(16 * (PUTS + 1));
          puts.order(ByteOrder.nativeOrder());
          for (Piece piece : pieces(rank, round)) {
            puts.putInt(piece.to).putInt(piece.from).putInt(piece.bytes).putInt(0);
          }
          list.write(0, puts.flip());
          meet();
          kernels.launch(
              kernel,
              BLOCKS,
              own.address(),
              windows,
              PUTS + 1,
              failed.address(),
              list.address(),
              round);
          assertEquals(0, flag(failed), () -> "a wait timed out: " + own.kernelTimeout());
          ByteBuffer got = ByteBuffer.allocate(WINDOW);
          out.read(0, got);
          assertArrayEquals(expected.apply(round), got.array(), "round " + round);
          meet();
        }
        assertTrue(own.kernelTimeout().isEmpty());
      }
      comm.deregisterWindowOnAllRanks(from);
      comm.deregisterWindowOnAllRanks(to);
    }
  }

  private void exchange(Communicator comm, OwnKernel kernels) {
    CudaDevice device = (CudaDevice) comm.device();
    int rank = comm.rank();
    try (DeviceMemory in = device.memAlloc(4L * NUMBERS);
        DeviceMemory out = device.memAlloc(4L * NUMBERS);
        DeviceMemory sum = device.allocate(4L * NUMBERS);
        DeviceMemory failed = device.allocate(4)) {
      Window mine = comm.registerWindow(in);
      Window theirs = comm.registerWindow(out);
      try (DeviceCommunicator own =
          comm.createDeviceCommunicator(Requirements.defaults().withSignals(2 * BLOCKS))) {
        long[] windows = {mine.deviceHandle(), theirs.deviceHandle()};
        for (int round = 0; round < ROUNDS; round++) {
          int count = round == 0 ? 3 : NUMBERS - round;
          ByteBuffer numbers = ByteBuffer.allocateDirect(4 * NUMBERS);
          numbers.order(ByteOrder.nativeOrder());
          for (int i = 0; i < NUMBERS; i++) {
            numbers.putFloat(number(rank, round, i));
          }
          in.write(0, numbers.flip());
          out.fill(POISON);
          sum.fill(POISON);
          meet();
          kernels.launch(
              "ownExchange",
              BLOCKS,
              own.address(),
              windows,
              count,
              failed.address(),
              sum.address(),
              round);
          assertEquals(0, flag(failed), () -> "a wait timed out: " + own.kernelTimeout());
          ByteBuffer got = ByteBuffer.allocateDirect(4 * NUMBERS).order(ByteOrder.nativeOrder());
          sum.read(0, got);
          for (int i = 0; i < count; i++) {
            float due = number(0, round, i) + number(1, round, i);
            assertEquals(due, got.getFloat(4 * i), "element " + i + " of round " + round);
          }
          for (int i = 4 * count; i < 4 * NUMBERS; i++) {
            assertEquals(POISON, got.get(i), "byte " + i + " is nobody's");
          }
          meet();
        }
      }
      comm.deregisterWindowOnAllRanks(mine);
      comm.deregisterWindowOnAllRanks(theirs);
    }
  }

  private static float number(int rank, int round, int i) {
    return (i % 1013) * (1 + rank) + 7 * round;
  }

  private void vainWait(Communicator comm, OwnKernel kernels) {
    CudaDevice device = (CudaDevice) comm.device();
    try (DeviceMemory failed = device.allocate(4);
        DeviceCommunicator own =
            comm.createDeviceCommunicator(Requirements.defaults().withSignals(4))) {
      long[] none = {0, 0};
      kernels.launch("ownVainWait", 1, own.address(), none, 3, failed.address());
      assertEquals(1, flag(failed));
      String why = own.kernelTimeout().orElseThrow();
      assertTrue(why.contains("waited for signal 3"), why);
      meet();
    }
  }

  private static int flag(DeviceMemory failed) {
    ByteBuffer flag = ByteBuffer.allocateDirect(4).order(ByteOrder.nativeOrder());
    failed.read(0, flag);
    return flag.getInt(0);
  }
}
