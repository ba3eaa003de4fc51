package org.nccl4j.it.nvls;

import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.DeviceCommunicator;
import org.nccl4j.api.DeviceCommunicator.Requirements;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.api.Window;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.bind.NativeMemory;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.support.Patience;
import org.nccl4j.it.api.RandomBytes;

/**
 * A program of two ranks on GPUs of two hosts, whose threads fill the rings of puts and gets as
 * kernels do with the header's Gin.
 */
final class FarKernelPuts {
  private static final Executor THREADS = task -> new Thread(task).start();
  private static final long PATIENCE_SECONDS = 300;
  private static final int SIZE = 2_000_003;
  private static final int LARGE = 256 << 10;
  private static final int ROUNDS = 3;
  private static final int PUTS = 300; // more than the ring has places

  private final CyclicBarrier both = new CyclicBarrier(2);
  private final String mode;

  /** Null without a fake of cards. */
  private final FakeCards cards;

  private FarKernelPuts(String mode) {
    this.mode = mode;
    this.cards = mode.equals("broken") || mode.equals("refused") ? FakeCards.load() : null;
  }

  /**
   * Argument: "exchange"; "large", where no message is small; "refused", the same where the card
   * takes no memory of users; "broken", where a queue pair breaks in each round; "wrong" put,
   * "beyond" get; "lost", where a rank is gone; or "near", where both ranks are on one host.
   */
  public static void main(String[] arguments) throws Exception {
    FarKernelPuts ranks = new FarKernelPuts(arguments[0]);
    UniqueId id = UniqueId.create();
    CompletableFuture<?>[] running = new CompletableFuture<?>[2];
    for (int rank = 0; rank < 2; rank++) {
      int own = rank;
      running[rank] = CompletableFuture.runAsync(() -> ranks.run(id, own), THREADS);
    }
    CompletableFuture.allOf(running).get(PATIENCE_SECONDS, TimeUnit.SECONDS);
  }

  private void run(UniqueId id, int rank) {
    CommunicatorConfig config =
        CommunicatorConfig.defaults().withOperationTimeout(Duration.ofSeconds(60));
    if (!mode.equals("near")) {
      config =
          config
              .withTransports(List.of("NET"))
              .with("NCCL_HOSTID", "host" + rank)
              .with("NCCL_SOCKET_IFNAME", "lo");
    }
    CudaDevice device = Devices.cuda().device(rank);
    // After a failure the windows are in use until the communicator is closed.
    try (DeviceMemory in = device.memAlloc(SIZE);
        DeviceMemory out = device.memAlloc(SIZE);
        Communicator comm = Communicator.initRank(2, id, rank, device, config)) {
      Window source = comm.registerWindow(in);
      Window target = comm.registerWindow(out);
      try (DeviceCommunicator kernels =
          comm.createDeviceCommunicator(Requirements.defaults().withSignals(2))) {
        refuseJava(kernels);
        Ring ring = Ring.of(device, kernels);
        if (mode.equals("refused") && rank == 0) {
          cards.fake_fail("ibv_reg_dmabuf_mr", FakeCards.NOT_SUPPORTED, 0);
        }
        meet(); // a wrong put ends the other rank's calls too
        switch (mode) {
          case "exchange", "large", "refused", "broken" -> {
            exchange(rank, ring, source, target);
            getAll(rank, ring, source, target);
          }
          case "near" -> near(rank, ring, comm, kernels);
          case "lost" -> lost(rank, ring, comm, source, target);
          default -> wrong(rank, ring, comm, target);
        }
      }
    }
  }

  /** Java kernels are of the host alone. */
  private static void refuseJava(DeviceCommunicator kernels) {
    try {
      kernels.signalCount(0);
      throw new AssertionError("a GPU's signal was read from Java");
    } catch (InvalidUsageException e) {
      if (e.id() != ErrorId.UNSUPPORTED) {
        throw e;
      }
    }
  }

  /** Fills a ring that it finds as a kernel does, in a {@code nccl4jDeviceCommunicator}. */
  private static final class Ring {
    private final long address;
    private final long descriptors;
    private final int slots;
    private long claimed;

    private Ring(long address, long descriptors, int slots) {
      this.address = address;
      this.descriptors = descriptors;
      this.slots = slots;
    }

    static Ring of(CudaDevice device, DeviceCommunicator kernels) {
      ByteBuffer words = ByteBuffer.allocate(136).order(ByteOrder.nativeOrder());
      device.wrap(kernels.address(), 136).read(0, words);
      return new Ring(words.getLong(96), words.getLong(104), words.getInt(128));
    }

    long word(int offset) {
      long value = NativeMemory.getLong(address + offset);
      VarHandle.acquireFence();
      return value;
    }

    boolean isOver() {
      return word(0) != 0;
    }

    void put(int rank, Window to, long offset, Window from, long fromOffset, long n, int signal) {
      post(rank, to, offset, from, fromOffset, n, signal, 0);
    }

    void get(int rank, Window from, long offset, Window to, long toOffset, long n) {
      post(rank, from, offset, to, toOffset, n, -1, 1);
    }

    private void post(
        int rank,
        Window its,
        long offset,
        Window own,
        long ownOffset,
        long n,
        int signal,
        int kind) {
      await(() -> claimed - word(8) < slots || isOver());
      long at = descriptors + address + claimed % slots * 64;
      NativeMemory.putInt(at + 8, rank);
      NativeMemory.putInt(at + 12, signal);
      NativeMemory.putLong(at + 16, its.number());
      NativeMemory.putLong(at + 24, offset);
      NativeMemory.putLong(at + 32, own.number());
      NativeMemory.putLong(at + 40, ownOffset);
      NativeMemory.putLong(at + 48, n);
      NativeMemory.putLong(at + 56, kind);
      VarHandle.releaseFence();
      NativeMemory.putLong(at, ++claimed);
    }

    void await(BooleanSupplier condition) {
      require(Patience.until(condition, Duration.ofSeconds(60)), "a wait did not end");
    }
  }

  /** Puts of several sizes, one of which has many messages, each after those before. */
  private void exchange(int rank, Ring ring, Window source, Window target) {
    int peer = 1 - rank;
    for (int round = 0; round < ROUNDS; round++) {
      begin(round, rank, source, target);
      Random random = new Random(round);
      byte[] due = new byte[SIZE];
      Arrays.fill(due, (byte) -1);
      byte[] theirs = data(round, peer);
      int puts = isLarge() ? 20 : PUTS;
      for (int put = 0; put < puts; put++) {
        int n = put == 7 ? SIZE - 1001 : bytes(random, 5000);
        int from = random.nextInt(SIZE - n + 1);
        int to = random.nextInt(SIZE - n + 1);
        ring.put(peer, target, to, source, from, n, put % 2 == 0 ? -1 : 1);
        System.arraycopy(theirs, from, due, to, n);
      }
      long signals = (round + 1L) * (puts / 2);
      ring.await(() -> ring.word(256 + 8) == signals);
      ring.await(() -> ring.word(24) == ring.claimed);
      require(ring.word(16) == ring.claimed, "what has arrived was sent");
      byte[] seen = new byte[SIZE];
      target.memory().read(0, ByteBuffer.wrap(seen));
      require(Arrays.equals(due, seen), "what was put in round %d is not there", round);
      require(ring.word(256) == 0, "a signal was raised that nobody named");
      meet();
    }
    System.out.println("rank " + rank + " has all of " + ROUNDS + " rounds");
  }

  /** Fills both windows; from its end on both ranks are in the round. */
  private void begin(int round, int rank, Window source, Window target) {
    source.memory().write(0, ByteBuffer.wrap(data(round, rank)));
    target.memory().fill((byte) -1);
    breakOne(rank, round);
    meet();
  }

  private boolean isLarge() {
    return mode.equals("large") || mode.equals("refused");
  }

  private int bytes(Random random, int most) {
    return isLarge() ? LARGE + random.nextInt(300_000) : 1 + random.nextInt(most);
  }

  /** Gets of several sizes by both ranks at once, each after those before. */
  private void getAll(int rank, Ring ring, Window source, Window target) {
    int peer = 1 - rank;
    for (int round = 0; round < ROUNDS; round++) {
      begin(round, rank, source, target);
      Random random = new Random(round);
      byte[] due = new byte[SIZE];
      Arrays.fill(due, (byte) -1);
      byte[] theirs = data(round, peer);
      int gets = isLarge() ? 20 : PUTS;
      for (int get = 0; get < gets; get++) {
        int n = get == 7 ? SIZE - 1001 : bytes(random, get % 10 == 0 ? 600_000 : 5000);
        int from = random.nextInt(SIZE - n + 1);
        int to = random.nextInt(SIZE - n + 1);
        ring.get(peer, source, from, target, to, n);
        System.arraycopy(theirs, from, due, to, n);
      }
      ring.await(() -> ring.word(16) == ring.claimed);
      ring.await(() -> ring.word(24) == ring.claimed);
      byte[] seen = new byte[SIZE];
      target.memory().read(0, ByteBuffer.wrap(seen));
      int wrong = Arrays.mismatch(due, seen);
      require(wrong < 0, "byte %d of what was got in round %d is wrong", wrong, round);
      meet();
    }
    System.out.println("rank " + rank + " has got all of " + ROUNDS + " rounds");
  }

  private void breakOne(int rank, int round) {
    if (mode.equals("broken") && rank == 0) {
      cards.fake_break(new Random(round).nextInt(30), round % 3);
    }
  }

  /** Rank 1 is gone while rank 0 goes on getting: its waits end, those for room too. */
  private void lost(int rank, Ring ring, Communicator comm, Window source, Window target) {
    if (rank == 0) {
      ring.get(1, source, 0, target, 0, SIZE);
      meet();
      long endNanos = Patience.end(Duration.ofSeconds(120));
      while (!ring.isOver()) {
        require(System.nanoTime() - endNanos < 0, "the ring is not over");
        ring.get(1, source, 0, target, 0, SIZE);
      }
      System.out.println("rank 0 hears of the end");
    } else {
      meet();
      comm.abort();
    }
  }

  private static byte[] data(int round, int rank) {
    return RandomBytes.of(10L * round + rank, SIZE);
  }

  /** Rank 0 puts beyond a window: both ranks fail, and kernels' waits end. */
  private void wrong(int rank, Ring ring, Communicator comm, Window target) {
    if (rank == 0) {
      if (mode.equals("beyond")) {
        ring.get(1, target, SIZE - 3, target, 0, 4);
      } else {
        ring.put(1, target, SIZE - 3, target, 0, 4, 0);
      }
    }
    ring.await(ring::isOver);
    try {
      comm.createDeviceCommunicator(Requirements.defaults().withSignals(1));
      throw new AssertionError("it has not failed");
    } catch (NcclException e) {
      System.out.println("rank " + rank + " says: " + e.getMessage());
    }
  }

  /** A kernel's wait ends at its deadline on both ranks; then rank 0 fails. */
  private void near(int rank, Ring ring, Communicator comm, DeviceCommunicator kernels) {
    require(ring.slots == 0 && !ring.isOver(), "a ring of %d slots", ring.slots);
    require(kernels.kernelTimeout().isEmpty(), "no wait has ended");
    NativeMemory.putLong(ring.address + 128, 2L << 32 | 1);
    System.out.println("rank " + rank + " says: " + kernels.kernelTimeout().orElseThrow());
    meet();
    if (rank == 0) {
      comm.abort();
    }
    ring.await(ring::isOver);
    System.out.println("rank " + rank + " hears of the end");
    meet();
  }

  private void meet() {
    try {
      both.await(PATIENCE_SECONDS, TimeUnit.SECONDS);
    } catch (Exception e) {
      throw new AssertionError(e);
    }
  }

  private static void require(boolean right, String what, Object... arguments) {
    if (!right) {
      throw new AssertionError(what.formatted(arguments));
    }
  }
}
