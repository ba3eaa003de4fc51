package org.nccl4j.it.nvls;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.Registration;
import org.nccl4j.api.UniqueId;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaStream;
import org.nccl4j.it.api.RandomBytes;

/**
 * A program of two ranks on GPUs of two hosts that send each other messages of any size from and to
 * any byte, alone, in groups and as all-to-alls. Threads do what the launched kernels would do.
 */
final class ExposedSends {
  private static final Executor THREADS = task -> new Thread(task).start();
  private static final long PATIENCE_SECONDS = 300;
  private static final int ROUNDS = 12;
  private static final int BYTES = (6 << 20) + 12_345;

  /** More than 8 steps of 64 KiB on each of two channels, of which the last are wanted in time. */
  private static final int LEAST = 1100 << 10;

  private final CyclicBarrier both = new CyclicBarrier(2);
  private final FakeCards cards = FakeCards.load();
  private final AtomicLong exposed = new AtomicLong();
  private final AtomicLong placed = new AtomicLong();
  private final AtomicLong inSlots = new AtomicLong();
  private final String mode;

  private ExposedSends(String mode) {
    this.mode = mode;
  }

  /**
   * Argument: which buffers are registered: "both", of "senders", of "receivers", or "neither";
   * "windows" for both in windows; "again" to register them anew in each round, "refused" where the
   * card takes no memory of users, "broken" where a queue pair breaks in each round.
   */
  public static void main(String[] arguments) throws Exception {
    ExposedSends ranks = new ExposedSends(arguments[0]);
    UniqueId id = UniqueId.create();
    List<CompletableFuture<Void>> running = new ArrayList<>();
    for (int rank = 0; rank < 2; rank++) {
      int own = rank;
      running.add(CompletableFuture.runAsync(() -> ranks.run(id, own), THREADS));
    }
    CompletableFuture.allOf(running.toArray(CompletableFuture<?>[]::new))
        .get(PATIENCE_SECONDS, TimeUnit.SECONDS);
    System.out.printf(
        "exposed %s%nplaced %s%nslots %s%n", ranks.exposed, ranks.placed, ranks.inSlots);
    System.out.println("left " + ranks.cards.fake_live());
  }

  private void run(UniqueId id, int rank) {
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .withTransports(List.of("NET"))
            .with("NCCL_HOSTID", "host" + rank)
            .with("NCCL_SOCKET_IFNAME", "lo")
            .withOperationTimeout(Duration.ofSeconds(60));
    CudaDevice device = Devices.cuda().device(rank);
    try (Communicator comm = Communicator.initRank(2, id, rank, device, config);
        CudaStream stream = (CudaStream) device.createStream();
        DeviceMemory from = device.memAlloc(BYTES);
        DeviceMemory into = device.memAlloc(BYTES)) {
      meet();
      if (rank == 0) {
        System.out.println("dma-bufs before " + cards.calls("dmabuf offset="));
        if (mode.equals("refused")) {
          cards.fake_fail("ibv_reg_dmabuf_mr", FakeCards.NOT_SUPPORTED, 0);
        }
      }
      meet();
      exchange(comm, from, into, stream);
      meet();
      if (rank == 0) {
        System.out.println("dma-bufs after " + cards.calls("dmabuf offset="));
        System.out.println("flushes " + cards.calls("send op=4 "));
      }
      meet();
    }
    System.out.println("rank " + rank + " has all");
  }

  private void exchange(
      Communicator comm, DeviceMemory from, DeviceMemory into, CudaStream stream) {
    List<Runnable> ends = new ArrayList<>();
    boolean again = mode.equals("again");
    for (int round = 0; round < ROUNDS; round++) {
      if (round == 0 || again) {
        register(comm, from, into, ends);
      }
      if (mode.equals("broken") && comm.rank() == 0) {
        cards.fake_break(new Random(round).nextInt(30), round % 3);
      }
      from.write(0, ByteBuffer.wrap(data(round, comm.rank())));
      into.fill((byte) round);
      byte[] expected = new byte[BYTES];
      Arrays.fill(expected, (byte) round);
      meet();
      int kind = round;
      move(
          comm,
          () -> {
            if (kind % 3 == 2) {
              allToAll(comm, from, into, kind, stream, expected);
            } else {
              messages(comm, from, into, kind, stream, expected);
            }
          });
      byte[] found = new byte[BYTES];
      into.read(0, ByteBuffer.wrap(found));
      int wrong = Arrays.mismatch(expected, found);
      SlotKernel.require(wrong < 0, "byte %d is wrong in round %d", wrong, round);
      meet();
      if (again) {
        ends.forEach(Runnable::run);
        ends.clear();
      }
    }
    ends.forEach(Runnable::run);
  }

  private void register(
      Communicator comm, DeviceMemory from, DeviceMemory into, List<Runnable> ends) {
    boolean all = !List.of("senders", "receivers", "neither", "windows").contains(mode);
    if (mode.equals("windows")) {
      for (DeviceMemory memory : List.of(from, into)) {
        Window window = comm.registerWindow(memory);
        ends.add(() -> comm.deregisterWindowOnAllRanks(window));
      }
    }
    if (all || mode.equals("senders")) {
      Registration registration = comm.register(from.slice(3, BYTES - 3));
      ends.add(() -> comm.deregister(registration));
    }
    if (all || mode.equals("receivers")) {
      Registration registration = comm.register(into.slice(5, BYTES - 5));
      ends.add(() -> comm.deregister(registration));
    }
  }

  /** Launches, one rank at a time, and does what the kernel does. */
  private void move(Communicator comm, Runnable launch) {
    CompletableFuture<Void> moved;
    synchronized (this) {
      launch.run();
      moved =
          new LaunchedMessages(
                  ((CudaDevice) comm.device()).connectionLayout(2), exposed, placed, inSlots)
              .start();
    }
    moved.orTimeout(PATIENCE_SECONDS, TimeUnit.SECONDS).join();
  }

  /** Three messages each way, of a rank's own sizes. */
  private static void messages(
      Communicator comm,
      DeviceMemory from,
      DeviceMemory into,
      int round,
      CudaStream stream,
      byte[] expected) {
    byte[] data = data(round, 1 - comm.rank());
    Random sends = new Random(100L * round + comm.rank());
    Random receives = new Random(100L * round + 1 - comm.rank());
    int source = 3;
    int target = 5;
    int theirs = 3;
    Group.start();
    for (int message = 0; message < 3; message++) {
      int bytes = LEAST + sends.nextInt((BYTES - 10) / 3 - LEAST);
      comm.send(from.slice(source, bytes), bytes, DataType.INT8, 1 - comm.rank(), stream);
      source += bytes;
      int comes = LEAST + receives.nextInt((BYTES - 10) / 3 - LEAST);
      comm.recv(into.slice(target, comes), comes, DataType.INT8, 1 - comm.rank(), stream);
      System.arraycopy(data, theirs, expected, target, comes);
      target += comes;
      theirs += comes;
    }
    Group.end();
  }

  private static void allToAll(
      Communicator comm,
      DeviceMemory from,
      DeviceMemory into,
      int round,
      CudaStream stream,
      byte[] expected) {
    int each = LEAST + 1001 * round;
    byte[] data = data(round, 1 - comm.rank());
    comm.allToAll(from.slice(7, 2 * each), into.slice(9, 2 * each), each, DataType.INT8, stream);
    System.arraycopy(
        data(round, comm.rank()), 7 + comm.rank() * each, expected, 9 + comm.rank() * each, each);
    System.arraycopy(data, 7 + comm.rank() * each, expected, 9 + (1 - comm.rank()) * each, each);
  }

  private static byte[] data(int round, int rank) {
    return RandomBytes.of(10L * round + rank, BYTES);
  }

  private void meet() {
    try {
      both.await(PATIENCE_SECONDS, TimeUnit.SECONDS);
    } catch (Exception e) {
      throw new AssertionError(e);
    }
  }
}
