package org.nccl4j.device.host.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.OneSidedWork;
import org.nccl4j.device.kernel.WindowWork;
import org.nccl4j.device.symmetric.MulticastMemory;
import org.nccl4j.device.symmetric.ResourceLayout;
import org.nccl4j.device.symmetric.SymmetricSpace;
import org.nccl4j.device.symmetric.WindowView;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/** Windows that have been in use for long, at the steps where something begins to repeat. */
@Timeout(600)
class LateWindowsTest {
  private static final int N = 3;
  private static final int COUNT = 200;
  private static final int ROUNDS = 6;

  private final LocalRanks ranks =
      new LocalRanks(N, new ConnectionLayout(64 * 16, 0, 1024), Duration.ofSeconds(30), 512);
  private final List<DeviceMemory> resources = memories(ranks.device.resourceBytes(N));
  private final List<DeviceMemory> sends = memories(4L * COUNT);
  private final List<DeviceMemory> recvs = memories(4L * COUNT * N);

  @AfterEach
  void close() {
    ranks.close();
    List.of(resources, sends, recvs).forEach(all -> all.forEach(DeviceMemory::close));
  }

  private static List<DeviceMemory> memories(long bytes) {
    List<DeviceMemory> all = new ArrayList<>();
    for (int rank = 0; rank < N; rank++) {
      all.add(HostDevice.instance().allocate(bytes));
    }
    return all;
  }

  private static WindowView window(long number, List<DeviceMemory> peers, int rank) {
    MulticastMemory all = new MulticastMemory(/* emulated= */ true, peers);
    return new WindowView(number, peers.get(rank).address(), peers, all);
  }

  /** As if so many barriers had been passed, and as many signals and lines sent and taken. */
  private void goOnAt(long step) {
    ResourceLayout layout = new ResourceLayout(N);
    for (int rank = 0; rank < N; rank++) {
      KernelCommunicator communicator = ranks.communicators.get(rank);
      communicator.attach(new SymmetricSpace(0, N, rank, window(0, resources, rank), 0, 0));
      HostMemory words = HostMemory.of(resources.get(rank));
      for (int place = 0; place < N; place++) {
        AtomicWords.storeRelease(words, layout.arrival(place), step);
        AtomicWords.storeRelease(words, layout.signal(place), step);
      }
      LocalRanks.set(LocalRanks.field(communicator, "arrivals"), "count", step);
      LocalRanks.set(LocalRanks.field(communicator, "nvlsLines"), "operations", step);
      Object oneSided = LocalRanks.field(communicator, "oneSided");
      Arrays.fill((long[]) LocalRanks.field(oneSided, "sent"), step);
      Arrays.fill((long[]) LocalRanks.field(oneSided, "awaited"), step);
    }
  }

  @ParameterizedTest
  @ValueSource(longs = {1L << 22, 1L << 30, 1L << 31, 1L << 32, 1L << 48, 1L << 62})
  void everyAlgorithmGoesOn(long around) {
    goOnAt(around - 3);
    for (int round = 0; round < ROUNDS; round++) {
      for (Algorithm algorithm :
          List.of(
              Algorithm.DIRECT_ONE_SHOT,
              Algorithm.DIRECT_TWO_SHOT,
              Algorithm.DIRECT_NVLS,
              Algorithm.DIRECT_NVLS_LL)) {
        run(Operation.ALL_REDUCE, algorithm, 10 * round);
      }
      run(Operation.ALL_GATHER, Algorithm.DIRECT_ONE_SHOT, 10 * round);
      run(Operation.ALL_GATHER, Algorithm.DIRECT_NVLS_LL, 10 * round);
      run(Operation.REDUCE_SCATTER, Algorithm.DIRECT_ONE_SHOT, 10 * round);
      putAround(round);
    }
  }

  /** Rank r has r + base and i % 7 in element i. */
  private void run(Operation operation, Algorithm algorithm, int base) {
    boolean scatters = operation == Operation.REDUCE_SCATTER;
    List<DeviceMemory> from = scatters ? recvs : sends;
    List<DeviceMemory> to = scatters ? sends : recvs;
    int count = scatters ? COUNT * N : COUNT;
    for (int rank = 0; rank < N; rank++) {
      to.get(rank).fill((byte) -1);
      write(from.get(rank), rank + base, count);
    }
    for (int rank = 0; rank < N; rank++) {
      WindowWork work =
          new WindowWork(
              operation,
              algorithm,
              DataType.INT32,
              RedOp.SUM,
              0,
              COUNT,
              algorithm.needsSend(operation) ? window(1, from, rank) : null,
              algorithm.needsRecv(operation) ? window(2, to, rank) : null,
              1);
      launch(rank, ranks.communicators.get(rank).prepare(work), from.get(rank), to.get(rank));
    }
    synchronize();
    for (int rank = 0; rank < N; rank++) {
      ByteBuffer got = read(to.get(rank));
      for (int i = 0; i < (operation == Operation.ALL_GATHER ? COUNT * N : COUNT); i++) {
        int at = scatters ? rank * COUNT + i : i;
        int expected =
            operation == Operation.ALL_GATHER
                ? i / COUNT + base + i % COUNT % 7
                : N * (N - 1) / 2 + N * (base + at % 7);
        int element = i;
        assertEquals(
            expected,
            got.getInt(4 * i),
            () -> "element " + element + " of " + operation + " by " + algorithm);
      }
    }
  }

  /** Each rank puts into the next one's window, and waits for the signal of the one before. */
  private void putAround(int round) {
    for (int rank = 0; rank < N; rank++) {
      write(sends.get(rank), rank + round, COUNT);
      recvs.get(rank).fill((byte) -1);
    }
    for (int rank = 0; rank < N; rank++) {
      int next = (rank + 1) % N;
      KernelCommunicator kernels = ranks.communicators.get(rank);
      WindowView window = window(2, recvs, rank);
      launch(
          rank,
          kernels.prepare(new OneSidedWork.Put(next, window, 8, 4L * COUNT)),
          sends.get(rank),
          null);
      List<OneSidedWork.Awaited> before = List.of(new OneSidedWork.Awaited((rank + 2) % N, 1));
      launch(rank, kernels.prepare(new OneSidedWork.Wait(before)), null, null);
    }
    synchronize();
    for (int rank = 0; rank < N; rank++) {
      ByteBuffer got = read(recvs.get(rank));
      for (int i = 0; i < COUNT; i++) {
        assertEquals((rank + 2) % N + round + i % 7, got.getInt(8 + 4 * i));
      }
    }
  }

  private void launch(int rank, KernelPlan plan, DeviceMemory send, DeviceMemory recv) {
    ranks.communicators.get(rank).launch(plan, send, recv, ranks.streams.get(rank));
  }

  private void synchronize() {
    ranks.streams.forEach(DeviceStream::isIdle);
    ranks.streams.forEach(DeviceStream::synchronize);
  }

  private static void write(DeviceMemory memory, int base, int count) {
    ByteBuffer data = ByteBuffer.allocate(4 * count).order(ByteOrder.nativeOrder());
    for (int i = 0; i < count; i++) {
      data.putInt(base + i % 7);
    }
    memory.write(0, data.flip());
  }

  private static ByteBuffer read(DeviceMemory memory) {
    ByteBuffer data = ByteBuffer.allocate((int) memory.size()).order(ByteOrder.nativeOrder());
    memory.read(0, data);
    return data.flip().order(ByteOrder.nativeOrder());
  }
}
