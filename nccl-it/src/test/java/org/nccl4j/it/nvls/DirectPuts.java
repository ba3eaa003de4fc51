package org.nccl4j.it.nvls;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Registration;
import org.nccl4j.api.UniqueId;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaStream;
import org.nccl4j.it.api.RandomBytes;

/**
 * A program of two ranks on GPUs of two hosts that put registered memory into each other's windows,
 * at any byte. Each checks all of its window.
 */
final class DirectPuts {
  private static final Executor THREADS = task -> new Thread(task).start();
  private static final long PATIENCE_SECONDS = 300;
  private static final int ROUNDS = 12;
  private static final int MOST_TIMES = 20;

  /** Two blocks and a bit, so that memory has more than one page of any size. */
  private static final int BYTES = (4 << 20) + 12_345;

  private final CyclicBarrier both = new CyclicBarrier(2);
  private final FakeCards cards = FakeCards.load();
  private final String mode;
  private final Set<Long> addresses = ConcurrentHashMap.newKeySet();

  /** True once both memories of a rank were at addresses at which others had been. */
  private volatile boolean again;

  private DirectPuts(String mode) {
    this.mode = mode;
  }

  /**
   * Argument: "registered" or "allocated" for the memory of the sources, "window" to put from the
   * window itself, "again" to register other memory in each round, "refused" where the card takes
   * no memory of users, "broken" where a queue pair breaks in each round, "after" to put from
   * windows right after a small put to the same bytes.
   */
  public static void main(String[] arguments) throws Exception {
    DirectPuts ranks = new DirectPuts(arguments[0]);
    UniqueId id = UniqueId.create();
    List<CompletableFuture<Void>> running = new ArrayList<>();
    for (int rank = 0; rank < 2; rank++) {
      int own = rank;
      running.add(CompletableFuture.runAsync(() -> ranks.run(id, own), THREADS));
    }
    CompletableFuture.allOf(running.toArray(CompletableFuture<?>[]::new))
        .get(PATIENCE_SECONDS, TimeUnit.SECONDS);
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
        CudaStream stream = (CudaStream) device.createStream()) {
      meet();
      if (rank == 0) {
        System.out.println("dma-bufs before " + cards.calls("dmabuf offset="));
        if (mode.equals("refused")) {
          cards.fake_fail("ibv_reg_dmabuf_mr", FakeCards.NOT_SUPPORTED, 0);
        }
      }
      meet();
      int time = 0;
      do {
        exchange(comm, device, stream, time++);
        meet();
      } while (mode.equals("again") && !again && time < MOST_TIMES);
      meet();
      if (rank == 0) {
        System.out.println("times " + time);
        System.out.println(again ? "an address came again" : "all addresses are different");
        System.out.println("dma-bufs after " + cards.calls("dmabuf offset="));
        System.out.println("flushes " + cards.calls("send op=4 "));
      }
      meet();
    }
    System.out.println("rank " + rank + " has all");
  }

  private void exchange(Communicator comm, CudaDevice device, CudaStream stream, int time) {
    try (DeviceMemory memory = device.memAlloc(2 * BYTES);
        DeviceMemory own =
            mode.equals("allocated") ? device.allocate(BYTES) : device.memAlloc(BYTES)) {
      Window window = comm.registerWindow(memory);
      boolean fromWindow = mode.equals("window") || mode.equals("after");
      // Of the window the second half is source alone.
      DeviceMemory source = fromWindow ? memory.slice(BYTES, BYTES) : own;
      Registration registration = fromWindow ? null : comm.register(source.slice(3, BYTES - 3));
      byte[] expected = new byte[BYTES];
      for (int round = 0; round < ROUNDS; round++) {
        source.write(0, ByteBuffer.wrap(data(time, round, comm.rank())));
        if (mode.equals("broken") && comm.rank() == 0) {
          cards.fake_break(new Random(round).nextInt(30), round % 3);
        }
        meet();
        Random random = new Random(100L * time + round);
        if (mode.equals("after")) {
          putSmall(comm, source, window, 100L * time + round, stream);
        }
        put(comm, source, window, random, stream);
        comm.waitSignal(Map.of(1 - comm.rank(), mode.equals("after") ? 2 : 1), stream);
        stream.synchronize();
        expect(expected, data(time, round, 1 - comm.rank()), new Random(100L * time + round));
        byte[] found = new byte[BYTES];
        memory.read(0, ByteBuffer.wrap(found));
        int wrong = Arrays.mismatch(expected, found);
        if (wrong >= 0) {
          throw new AssertionError(
              "byte %d is wrong, time %d round %d".formatted(wrong, time, round));
        }
        meet();
      }
      if (registration != null) {
        comm.deregister(registration);
      }
      comm.deregisterWindowOnAllRanks(window);
      again |= !addresses.add(memory.address()) & !addresses.add(own.address());
    }
  }

  private static byte[] data(int time, int round, int rank) {
    return RandomBytes.of(1000L * time + 10L * round + rank, BYTES);
  }

  /** Any bytes of the source to any place in the window; few, some, or many. */
  private static void put(
      Communicator comm, DeviceMemory source, Window window, Random random, CudaStream stream) {
    int bytes = bytes(random);
    int from = 3 + random.nextInt(BYTES - 3 - bytes + 1);
    int to = random.nextInt(BYTES - bytes + 1);
    comm.putSignal(
        source.slice(from, bytes), bytes, DataType.INT8, 1 - comm.rank(), window, to, stream);
  }

  /** Other bytes of the source to where the next put begins. */
  private static void putSmall(
      Communicator comm, DeviceMemory source, Window window, long seed, CudaStream stream) {
    Random random = new Random(seed);
    int bytes = bytes(random);
    random.nextInt(BYTES - 3 - bytes + 1);
    int to = random.nextInt(BYTES - bytes + 1);
    comm.putSignal(source.slice(7, 5000), 5000, DataType.INT8, 1 - comm.rank(), window, to, stream);
  }

  private static void expect(byte[] expected, byte[] data, Random random) {
    int bytes = bytes(random);
    int from = 3 + random.nextInt(BYTES - 3 - bytes + 1);
    int to = random.nextInt(BYTES - bytes + 1);
    System.arraycopy(data, from, expected, to, bytes);
  }

  private static int bytes(Random random) {
    return switch (random.nextInt(4)) {
      case 0 -> (16 << 10) + random.nextInt(3) - 1;
      case 1 -> 4096 * (5 + random.nextInt(50));
      default -> (64 << 10) + random.nextInt(BYTES - (64 << 10) - 3);
    };
  }

  private void meet() {
    try {
      both.await(PATIENCE_SECONDS, TimeUnit.SECONDS);
    } catch (Exception e) {
      throw new AssertionError(e);
    }
  }
}
