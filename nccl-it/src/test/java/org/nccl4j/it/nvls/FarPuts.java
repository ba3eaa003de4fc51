package org.nccl4j.it.nvls;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaStream;
import org.nccl4j.it.api.RandomBytes;
import org.nccl4j.operation.Operation;

/** A program of two ranks on GPUs of two hosts, who put into each other's windows. */
final class FarPuts {
  private static final Executor THREADS = task -> new Thread(task).start();
  private static final long PATIENCE_SECONDS = 300;
  private static final int PART = 2_000_003;
  private static final int ROUNDS = 3;

  private final CyclicBarrier both = new CyclicBarrier(2);
  private final CountDownLatch closing = new CountDownLatch(1);
  private final String mode;

  private FarPuts(String mode) {
    this.mode = mode;
  }

  /** Argument: "exchange", "late", "silent", "captured", or "refused". */
  public static void main(String[] arguments) throws Exception {
    FarPuts ranks = new FarPuts(arguments[0]);
    UniqueId id = UniqueId.create();
    List<CompletableFuture<Void>> running = new ArrayList<>();
    for (int rank = 0; rank < 2; rank++) {
      int own = rank;
      running.add(CompletableFuture.runAsync(() -> ranks.run(id, own), THREADS));
    }
    CompletableFuture.allOf(running.toArray(CompletableFuture<?>[]::new))
        .get(PATIENCE_SECONDS, TimeUnit.SECONDS);
  }

  private void run(UniqueId id, int rank) {
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .withTransports(Arrays.asList(System.getProperty("nccl4j.by", "NET").split(",")))
            .with("NCCL_HOSTID", "host" + rank)
            .with("NCCL_SOCKET_IFNAME", "lo")
            .withOperationTimeout(Duration.ofMillis(mode.equals("silent") ? 200 : 60_000));
    CudaDevice device = Devices.cuda().device(rank);
    try (Communicator comm = Communicator.initRank(2, id, rank, device, config);
        DeviceMemory memory = device.memAlloc(2 * PART);
        DeviceMemory source = device.allocate(PART);
        CudaStream stream = (CudaStream) device.createStream()) {
      Window window = comm.registerWindow(memory);
      switch (mode) {
        case "exchange" -> exchange(comm, memory, source, window, stream);
        case "late" -> late(comm, memory, source, window, stream);
        case "silent" -> silent(comm, stream);
        case "captured" -> captured(comm, source, window, stream);
        default -> refused(comm, source, window, stream);
      }
    } catch (NcclException e) {
      if (!mode.equals("silent")) {
        throw e;
      }
    }
  }

  private static byte[] data(int round, int rank) {
    return RandomBytes.of(10L * round + rank, PART);
  }

  private static void put(
      Communicator comm, DeviceMemory from, Window window, long at, CudaStream stream) {
    int peer = 1 - comm.rank();
    comm.putSignal(from, from.size(), DataType.INT8, peer, window, at, stream);
  }

  /** Each writes into its part of the other's window, by puts of which only the number is told. */
  private void exchange(
      Communicator comm,
      DeviceMemory memory,
      DeviceMemory source,
      Window window,
      CudaStream stream) {
    int rank = comm.rank();
    int peer = 1 - rank;
    long at = (long) rank * PART;
    for (int round = 0; round < ROUNDS; round++) {
      int cut = 1 + new Random(round).nextInt(PART - 1);
      source.write(0, ByteBuffer.wrap(data(round, rank)));
      put(comm, source.slice(0, cut), window, at, stream);
      put(comm, source.slice(cut, PART - cut), window, at + cut, stream);
      put(comm, source.slice(0, 0), window, at, stream);
      comm.signal(peer, stream);
      comm.waitSignal(Map.of(peer, 3), stream);
      comm.waitSignal(Map.of(peer, 1), stream);
      stream.synchronize();
      require(
          Arrays.equals(data(round, peer), bytes(memory, (long) peer * PART)),
          "what was put in round %d is not there",
          round);
      meet();
    }
    comm.deregisterWindowOnAllRanks(window);
    System.out.println(comm.explain(Operation.ALL_REDUCE, 1 << 20, DataType.FLOAT32));
    System.out.println("rank " + rank + " has all of " + ROUNDS + " rounds");
  }

  /** Rank 1 calls nothing: what rank 0 puts is there once the window is deregistered. */
  private void late(
      Communicator comm,
      DeviceMemory memory,
      DeviceMemory source,
      Window window,
      CudaStream stream) {
    if (comm.rank() == 0) {
      source.write(0, ByteBuffer.wrap(data(7, 0)));
      put(comm, source, window, 0, stream);
      stream.synchronize();
    }
    comm.deregisterWindowOnAllRanks(window);
    if (comm.rank() == 1) {
      require(Arrays.equals(data(7, 0), bytes(memory, 0)), "what was put is not there");
      System.out.println("rank 1 has it");
    }
  }

  private static byte[] bytes(DeviceMemory memory, long offset) {
    ByteBuffer read = ByteBuffer.allocate(PART);
    memory.read(offset, read);
    return read.array();
  }

  /** Rank 1 signals nobody. */
  private void silent(Communicator comm, CudaStream stream) {
    if (comm.rank() == 1) {
      await(closing);
      return;
    }
    comm.waitSignal(Map.of(1, 1), stream);
    try {
      stream.synchronize();
      stream.synchronize(); // the first goes on once it is released, perhaps before it is known why
      throw new AssertionError("nobody signalled");
    } catch (NcclException e) {
      System.out.println("rank 0 says: " + e.getMessage());
    } finally {
      closing.countDown();
    }
  }

  private void captured(Communicator comm, DeviceMemory source, Window window, CudaStream stream) {
    for (Runnable call :
        List.<Runnable>of(
            () -> put(comm, source, window, 0, stream),
            () -> comm.signal(1 - comm.rank(), stream),
            () -> comm.waitSignal(Map.of(1 - comm.rank(), 1), stream))) {
      stream.beginCapture();
      System.out.println("captured: " + refusal(call));
      stream.endCapture().close();
    }
    put(comm, source, window, 0, stream);
    comm.waitSignal(Map.of(1 - comm.rank(), 1), stream);
    stream.synchronize();
    meet();
  }

  private void refused(Communicator comm, DeviceMemory source, Window window, CudaStream stream) {
    System.out.println("refused: " + refusal(() -> put(comm, source, window, 0, stream)));
    System.out.println("refused: " + refusal(() -> comm.signal(1 - comm.rank(), stream)));
    comm.deregisterWindowOnAllRanks(window);
  }

  private static String refusal(Runnable call) {
    try {
      call.run();
    } catch (NcclException e) {
      return e.getMessage();
    }
    throw new AssertionError("not refused");
  }

  private void meet() {
    try {
      both.await(PATIENCE_SECONDS, TimeUnit.SECONDS);
    } catch (Exception e) {
      throw new AssertionError(e);
    }
  }

  private static void await(CountDownLatch latch) {
    try {
      require(latch.await(PATIENCE_SECONDS, TimeUnit.SECONDS), "the other rank does not end");
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  private static void require(boolean right, String what, Object... arguments) {
    if (!right) {
      throw new AssertionError(what.formatted(arguments));
    }
  }
}
