package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.cuda.CudaDevice;

/**
 * Puts into windows of GPU memory of another host, over sockets: random pieces of odd sizes at odd
 * offsets into poisoned windows, of which every byte is looked at.
 */
@Tag("gpu")
@Tag("two-gpus")
@Timeout(600)
class FarPutGpuTest {
  private static final int WINDOW = (6 << 20) + 12_347;
  private static final int MOST = 3 << 20;
  private static final int ROUNDS = 40;
  private static final int PUTS = 5;
  private static final long SEED = Long.getLong("nccl4j.seed", 1);

  private final int gpus = Math.min(4, Devices.cuda().list().size());
  private final CyclicBarrier meeting = new CyclicBarrier(Math.max(1, gpus));

  @Test
  void whatIsPutIsThereAndNothingElseHasChanged() throws Exception {
    System.out.println("seed " + SEED);
    UniqueId id = UniqueId.create();
    List<CompletableFuture<Void>> running = new ArrayList<>();
    for (int rank = 0; rank < gpus; rank++) {
      int own = rank;
      running.add(
          CompletableFuture.runAsync(
              () -> run(id, own), task -> new Thread(task, "rank " + own).start()));
    }
    for (CompletableFuture<Void> each : running) {
      each.get(300, TimeUnit.SECONDS);
    }
  }

  private void run(UniqueId id, int rank) {
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .withTransports(List.of("NET"))
            .with("NCCL_HOSTID", "host" + rank)
            .with("NCCL_SOCKET_IFNAME", "lo")
            .withOperationTimeout(Duration.ofSeconds(30));
    CudaDevice device = Devices.cuda().device(rank);
    try (Communicator comm = Communicator.initRank(gpus, id, rank, device, config);
        DeviceMemory memory = device.memAlloc(WINDOW);
        DeviceMemory source = device.allocate(MOST);
        DeviceStream stream = device.createStream()) {
      Window window = comm.registerWindow(memory);
      for (int round = 0; round < ROUNDS; round++) {
        memory.fill((byte) round);
        meet();
        put(comm, source, window, round, stream);
        int writer = (rank + gpus - 1) % gpus;
        comm.waitSignal(Map.of(writer, PUTS), stream);
        stream.synchronize();
        ByteBuffer seen = ByteBuffer.allocate(WINDOW);
        memory.read(0, seen);
        assertArrayEquals(expected(writer, round), seen.array(), "round " + round);
        meet();
      }
      comm.deregisterWindowOnAllRanks(window);
    }
  }

  /** One put's place, and what it writes. */
  private record Piece(int offset, byte[] bytes) {}

  /** One of a byte, and others of any size, one of which may write over another. */
  private static List<Piece> pieces(int writer, int round) {
    Random random = new Random(SEED + 31L * round + writer);
    List<Piece> pieces = new ArrayList<>();
    for (int put = 0; put < PUTS; put++) {
      byte[] bytes = new byte[put == 0 ? 1 : 1 + random.nextInt(1 << 1 + random.nextInt(21))];
      random.nextBytes(bytes);
      pieces.add(new Piece(random.nextInt(WINDOW - bytes.length + 1), bytes));
    }
    return pieces;
  }

  private void put(
      Communicator comm, DeviceMemory source, Window window, int round, DeviceStream stream) {
    int reader = (comm.rank() + 1) % gpus;
    long at = 0;
    for (Piece piece : pieces(comm.rank(), round)) {
      // Each from a place of its own, odd too: puts are read from while the next is written.
      at = at + piece.bytes.length > MOST ? 0 : at;
      if (at == 0) {
        stream.synchronize();
      }
      source.write(at, ByteBuffer.wrap(piece.bytes));
      DeviceMemory from = source.slice(at, piece.bytes.length);
      comm.putSignal(from, piece.bytes.length, DataType.INT8, reader, window, piece.offset, stream);
      at += piece.bytes.length;
    }
  }

  private static byte[] expected(int writer, int round) {
    byte[] expected = new byte[WINDOW];
    Arrays.fill(expected, (byte) round);
    for (Piece piece : pieces(writer, round)) {
      System.arraycopy(piece.bytes, 0, expected, piece.offset, piece.bytes.length);
    }
    return expected;
  }

  private void meet() {
    try {
      meeting.await(300, TimeUnit.SECONDS);
    } catch (Exception e) {
      throw new AssertionError(e);
    }
  }
}
