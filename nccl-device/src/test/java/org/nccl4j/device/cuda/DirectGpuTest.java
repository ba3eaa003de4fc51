package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.OneSidedWork;
import org.nccl4j.device.kernel.WindowWork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/** Every direct kernel against random data, with poison around the outputs. Needs GPUs. */
@Tag("gpu")
class DirectGpuTest {
  private static final Duration DEADLINE = Duration.ofSeconds(5);
  private static final int GUARD = 256;
  private static final byte POISON = (byte) 0xA5;
  private static final int MOST = 16 << 20;

  /** The checked case. */
  record Kind(Operation operation, Algorithm way) {}

  private static final List<Kind> KINDS =
      List.of(
          new Kind(Operation.ALL_REDUCE, Algorithm.DIRECT_LL),
          new Kind(Operation.ALL_REDUCE, Algorithm.DIRECT_ONE_SHOT),
          new Kind(Operation.ALL_REDUCE, Algorithm.DIRECT_TWO_SHOT),
          new Kind(Operation.ALL_GATHER, Algorithm.DIRECT_LL),
          new Kind(Operation.ALL_GATHER, Algorithm.DIRECT_ONE_SHOT),
          new Kind(Operation.ALL_GATHER, Algorithm.COPY_ENGINE),
          new Kind(Operation.REDUCE_SCATTER, Algorithm.DIRECT_LL),
          new Kind(Operation.REDUCE_SCATTER, Algorithm.DIRECT_ONE_SHOT),
          new Kind(Operation.ALL_TO_ALL, Algorithm.DIRECT_LL),
          new Kind(Operation.ALL_TO_ALL, Algorithm.DIRECT_ONE_SHOT),
          new Kind(Operation.ALL_TO_ALL, Algorithm.COPY_ENGINE),
          new Kind(Operation.BROADCAST, Algorithm.DIRECT_LL),
          new Kind(Operation.REDUCE, Algorithm.DIRECT_LL),
          new Kind(Operation.SCATTER, Algorithm.DIRECT_LL),
          new Kind(Operation.GATHER, Algorithm.DIRECT_LL),
          new Kind(Operation.ALL_REDUCE, Algorithm.DIRECT_LL128),
          new Kind(Operation.ALL_GATHER, Algorithm.DIRECT_LL128),
          new Kind(Operation.REDUCE_SCATTER, Algorithm.DIRECT_LL128),
          new Kind(Operation.ALL_TO_ALL, Algorithm.DIRECT_LL128),
          new Kind(Operation.BROADCAST, Algorithm.DIRECT_LL128),
          new Kind(Operation.REDUCE, Algorithm.DIRECT_LL128),
          new Kind(Operation.SCATTER, Algorithm.DIRECT_LL128),
          new Kind(Operation.GATHER, Algorithm.DIRECT_LL128),
          new Kind(Operation.REDUCE, Algorithm.DIRECT_ONE_SHOT),
          new Kind(Operation.BROADCAST, Algorithm.COPY_ENGINE),
          new Kind(Operation.SCATTER, Algorithm.COPY_ENGINE),
          new Kind(Operation.GATHER, Algorithm.COPY_ENGINE),
          new Kind(Operation.ALL_GATHER, Algorithm.COPY_ENGINE_BATCH),
          new Kind(Operation.ALL_TO_ALL, Algorithm.COPY_ENGINE_BATCH),
          new Kind(Operation.BROADCAST, Algorithm.COPY_ENGINE_BATCH),
          new Kind(Operation.SCATTER, Algorithm.COPY_ENGINE_BATCH),
          new Kind(Operation.GATHER, Algorithm.COPY_ENGINE_BATCH),
          new Kind(Operation.ALL_GATHER, Algorithm.COPY_ENGINE_STREAM),
          new Kind(Operation.ALL_TO_ALL, Algorithm.COPY_ENGINE_STREAM),
          new Kind(Operation.BROADCAST, Algorithm.COPY_ENGINE_STREAM));

  private static final Set<Algorithm> COPIES =
      Set.of(Algorithm.COPY_ENGINE, Algorithm.COPY_ENGINE_BATCH, Algorithm.COPY_ENGINE_STREAM);

  /** And those of two ranks alone. */
  private static final List<Kind> BESIDE =
      List.of(
          new Kind(Operation.ALL_REDUCE, Algorithm.COPY_ENGINE),
          new Kind(Operation.REDUCE_SCATTER, Algorithm.COPY_ENGINE));

  private static List<Kind> kinds(int n) {
    return n == 2 ? Stream.concat(KINDS.stream(), BESIDE.stream()).toList() : KINDS;
  }

  /** All kinds and operators of a type; odd counts, shifted and in place by chance. */
  @ParameterizedTest
  @EnumSource(DataType.class)
  void everyTypeOperatorOperationAndWay(DataType type) {
    Random random = new Random(55 + type.ordinal());
    try (GpuRanks ranks = new GpuRanks(CollectiveGpuTest.size(), DEADLINE);
        DirectRanks windows = new DirectRanks(ranks, MOST)) {
      for (Kind kind : kinds(ranks.n)) {
        List<RedOp> ops = kind.operation.reduces() ? List.of(RedOp.values()) : List.of(RedOp.SUM);
        for (RedOp op : ops) {
          int[] counts = {
            1 + random.nextInt(2),
            1 + random.nextInt(40),
            1 + random.nextInt(3000),
            30_000 + random.nextInt(9999)
          };
          for (int count : counts) {
            check(ranks, windows, kind, type, op, fitting(kind, type, ranks.n, count), random);
          }
        }
      }
    }
  }

  /** Enough that every thread has several packs, and blocks of several numbers. */
  @Test
  void largeFloats() {
    Random random = new Random(99);
    try (GpuRanks ranks = new GpuRanks(CollectiveGpuTest.size(), DEADLINE);
        DirectRanks windows = new DirectRanks(ranks, MOST)) {
      for (Kind kind : kinds(ranks.n)) {
        int n = kind.operation == Operation.ALL_REDUCE ? 1 : ranks.n;
        for (int count : new int[] {100_003, 800_000 / n * 4}) {
          if (fitting(kind, DataType.FLOAT32, ranks.n, count) == count) {
            check(ranks, windows, kind, DataType.FLOAT32, RedOp.SUM, count, random);
          }
        }
      }
    }
  }

  /** A count, or as many elements as go in lines where the way has them. */
  static int fitting(Kind kind, DataType type, int n, int count) {
    long most = kind.way.isLines() ? CudaDevice.lineData(n, kind.way) / type.bytes() : count;
    return (int) Math.min(count, most);
  }

  /** One operation, shifted and in place by chance, with poison around its output. */
  static void check(
      GpuRanks ranks,
      DirectRanks windows,
      Kind kind,
      DataType type,
      RedOp op,
      int count,
      Random random) {
    check(ranks, windows, kind, type, op, count, random, 0, 0);
  }

  /** The same by a number of blocks, or by at most so many; 0 leaves both to the device. */
  static void check(
      GpuRanks ranks,
      DirectRanks windows,
      Kind kind,
      DataType type,
      RedOp op,
      int count,
      Random random,
      int blocks,
      int mostBlocks) {
    int n = ranks.n;
    int element = type.bytes();
    int part = count * element;
    int sendBytes = parts(kind.operation, true, n) * part;
    int recvBytes = parts(kind.operation, false, n) * part;
    int root = random.nextInt(n);
    boolean inPlace =
        random.nextInt(3) == 0
            && !BESIDE.contains(kind)
            && (kind.operation == Operation.ALL_REDUCE && kind.way != Algorithm.DIRECT_ONE_SHOT
                || kind.operation == Operation.ALL_GATHER
                || kind.operation == Operation.REDUCE_SCATTER);
    int shift = random.nextInt(3) == 0 ? random.nextInt(17) * element : 0;
    RandomElements elements =
        new RandomElements(type, op, n, sendBytes / element, random.nextLong());
    elements.expectOneRounding();
    List<DeviceMemory> sends = new ArrayList<>();
    List<DeviceMemory> recvs = new ArrayList<>();
    long at = GUARD + shift;
    for (int rank = 0; rank < n; rank++) {
      DeviceMemory recvWindow = inPlaceWindow(windows, kind, inPlace, rank);
      recvWindow.slice(0, Math.max(sendBytes, recvBytes) + 2 * at).fill(POISON);
      int own = inPlace ? rank * part : 0;
      DeviceMemory from = inPlace ? recvWindow : windows.send.get(rank);
      sends.add(from.slice(at + (inPlace && sendBytes < recvBytes ? own : 0), sendBytes));
      recvs.add(recvWindow.slice(at + (inPlace && recvBytes < sendBytes ? own : 0), recvBytes));
      sends.get(rank).write(0, elements.inputs[rank].duplicate());
    }
    for (int rank = 0; rank < n; rank++) {
      var communicator = ranks.communicators.get(rank);
      var send = inPlace && kind.operation == Operation.ALL_REDUCE ? windows.recvs : windows.sends;
      WindowWork work =
          new WindowWork(
              kind.operation,
              kind.way,
              type,
              op,
              root,
              count,
              kind.way.needsSend(kind.operation) ? send.get(rank) : null,
              kind.way.needsRecv(kind.operation) ? windows.recvs.get(rank) : null,
              blocks,
              mostBlocks,
              /* apart= */ mostBlocks != 0);
      communicator.launch(
          communicator.prepare(work), sends.get(rank), recvs.get(rank), ranks.streams.get(rank));
    }
    ranks.synchronize();
    for (int rank = 0; rank < n; rank++) {
      String what =
          "%s of %d %s %s root %d%s shifted by %d by %d blocks, rank %d of %d"
              .formatted(
                  kind,
                  count,
                  type,
                  op,
                  root,
                  inPlace ? " in place" : "",
                  shift,
                  Math.max(blocks, mostBlocks),
                  rank,
                  n);
      assertNull(wrong(kind.operation, elements, rank, root, n, part, read(recvs.get(rank))), what);
      if (!inPlace) {
        ByteBuffer before = read(windows.recv.get(rank).slice(0, at));
        ByteBuffer after = read(windows.recv.get(rank).slice(at + recvBytes, GUARD));
        for (int i = 0; i < GUARD; i++) {
          assertTrue(before.get(i) == POISON && after.get(i) == POISON, what + ": around it");
        }
      }
    }
  }

  /** In place a reduce-scatter is all in the send window, everything else in the receive window. */
  private static DeviceMemory inPlaceWindow(
      DirectRanks windows, Kind kind, boolean inPlace, int rank) {
    return inPlace && kind.operation == Operation.REDUCE_SCATTER
        ? windows.send.get(rank)
        : windows.recv.get(rank);
  }

  private static int parts(Operation operation, boolean send, int n) {
    return send
        ? operation.sendParts(n, /* isRoot= */ true)
        : operation.recvParts(n, /* isRoot= */ true);
  }

  static ByteBuffer read(DeviceMemory memory) {
    ByteBuffer data = ByteBuffer.allocateDirect((int) memory.size());
    memory.read(0, data);
    return data.flip();
  }

  private static String wrong(
      Operation operation,
      RandomElements elements,
      int rank,
      int root,
      int n,
      int part,
      ByteBuffer data) {
    return switch (operation) {
      case ALL_REDUCE -> elements.wrong(data, 0);
      case REDUCE -> rank == root ? elements.wrong(data, 0) : null;
      case REDUCE_SCATTER -> elements.wrong(data, rank * part / elements.type.bytes());
      case BROADCAST -> elements.wrongCopy(data, root);
      case ALL_GATHER -> gathered(elements, n, part, data, 0);
      case GATHER -> rank == root ? gathered(elements, n, part, data, 0) : null;
      case ALL_TO_ALL -> gathered(elements, n, part, data, rank * part);
      case SCATTER ->
          elements.inputs[root].slice(rank * part, part).mismatch(data) < 0 ? null : "differs";
      default -> throw new IllegalArgumentException(operation.key());
    };
  }

  private static String gathered(
      RandomElements elements, int n, int part, ByteBuffer data, int from) {
    for (int rank = 0; rank < n; rank++) {
      int at = elements.inputs[rank].slice(from, part).mismatch(data.slice(rank * part, part));
      if (at >= 0) {
        return "byte %d of rank %d differs".formatted(at, rank);
      }
    }
    return null;
  }

  /** Many small ones of several sizes back to back: halves of lines are used again and again. */
  @Test
  void backToBackAndInGraphs() {
    try (GpuRanks ranks = new GpuRanks(CollectiveGpuTest.size(), DEADLINE);
        DirectRanks windows = new DirectRanks(ranks, MOST)) {
      int n = ranks.n;
      List<DeviceMemory> buffers = new ArrayList<>();
      for (CudaDevice device : ranks.devices) {
        DeviceMemory buffer = device.allocate(4 * 20_000);
        ByteBuffer ones = ByteBuffer.allocateDirect(4 * 20_000).order(ByteOrder.nativeOrder());
        while (ones.hasRemaining()) {
          ones.putInt(1);
        }
        buffer.write(0, ones.flip());
        buffers.add(buffer);
      }
      List<CudaGraph> graphs = new ArrayList<>();
      for (int rank = 0; rank < n; rank++) {
        ranks.streams.get(rank).beginCapture();
        for (int round = 0; round < 10; round++) {
          launchMaximum(ranks, windows, rank, buffers.get(rank), 1 + 2001 * round);
        }
        graphs.add(ranks.streams.get(rank).endCapture());
      }
      for (int replay = 0; replay < 20; replay++) {
        for (int rank = 0; rank < n; rank++) {
          launchMaximum(ranks, windows, rank, buffers.get(rank), 20_000);
          graphs.get(rank).launch(ranks.streams.get(rank));
        }
      }
      ranks.synchronize();
      for (DeviceMemory buffer : buffers) {
        ByteBuffer data = read(buffer).order(ByteOrder.nativeOrder());
        while (data.hasRemaining()) {
          assertEquals(1, data.getInt());
        }
      }
      graphs.forEach(CudaGraph::close);
      buffers.forEach(DeviceMemory::close);
    }
  }

  /** The same on all ranks, so the result is the input. */
  private static void launchMaximum(
      GpuRanks ranks, DirectRanks windows, int rank, DeviceMemory buffer, int count) {
    WindowWork work =
        new WindowWork(
            Operation.ALL_REDUCE,
            Algorithm.DIRECT_LL,
            DataType.INT32,
            RedOp.MAX,
            0,
            count,
            null,
            null,
            0);
    KernelPlan plan = ranks.communicators.get(rank).prepare(work);
    ranks.communicators.get(rank).launch(plan, buffer, buffer, ranks.streams.get(rank));
  }

  @Test
  void putsArriveBeforeTheirSignals() {
    try (GpuRanks ranks = new GpuRanks(CollectiveGpuTest.size(), DEADLINE);
        DirectRanks windows = new DirectRanks(ranks, MOST)) {
      putsToTheNext(ranks, windows);
    }
  }

  private static void putsToTheNext(GpuRanks ranks, DirectRanks windows) {
    int n = ranks.n;
    for (int round = 1; round <= 20; round++) {
      for (int rank = 0; rank < n; rank++) {
        windows.send.get(rank).slice(0, 100_000).fill((byte) (round + rank));
        var communicator = ranks.communicators.get(rank);
        KernelPlan put =
            communicator.prepare(
                new OneSidedWork.Put((rank + 1) % n, windows.recvs.get(rank), 500, 100_000));
        KernelPlan wait =
            communicator.prepare(
                new OneSidedWork.Wait(List.of(new OneSidedWork.Awaited((rank + n - 1) % n, 1))));
        communicator.launch(
            put, windows.send.get(rank).slice(0, 100_000), null, ranks.streams.get(rank));
        communicator.launch(wait, null, null, ranks.streams.get(rank));
      }
      ranks.synchronize();
      for (int rank = 0; rank < n; rank++) {
        ByteBuffer got = read(windows.recv.get(rank).slice(500, 100_000));
        byte expected = (byte) (round + (rank + n - 1) % n);
        for (int i = 0; i < 100_000; i++) {
          assertEquals(expected, got.get(i));
        }
      }
    }
  }

  /**
   * More ranks than a machine has: those of a rack, each with a block, so that all have room. A GPU
   * runs as many streams at the same time as it has queues, and fewer with copies, which are left
   * out.
   */
  @Test
  void aRack() {
    int queues = Integer.parseInt(System.getenv().getOrDefault("CUDA_DEVICE_MAX_CONNECTIONS", "8"));
    assumeTrue(
        queues * CudaDevices.probe().list().size() >= 40,
        "needs 40 queues of GPUs, which have 8, or up to 32 by CUDA_DEVICE_MAX_CONNECTIONS");
    Random random = new Random(41);
    try (GpuRanks ranks = new GpuRanks(40, DEADLINE);
        DirectRanks windows = new DirectRanks(ranks, MOST, 1L << 32)) {
      for (DataType type : new DataType[] {DataType.FLOAT32, DataType.BFLOAT16, DataType.INT8}) {
        for (Kind kind : KINDS.stream().filter(kind -> !COPIES.contains(kind.way)).toList()) {
          for (int most : new int[] {2, 40, 3000}) {
            int count = fitting(kind, type, ranks.n, 1 + random.nextInt(most));
            check(ranks, windows, kind, type, RedOp.SUM, count, random, 1, 0);
          }
        }
      }
      signalsToTheNext(ranks);
    }
  }

  private static void signalsToTheNext(GpuRanks ranks) {
    int n = ranks.n;
    for (int rank = 0; rank < n; rank++) {
      var communicator = ranks.communicators.get(rank);
      OneSidedWork signal = new OneSidedWork.Put((rank + 1) % n, null, 0, 0);
      OneSidedWork wait =
          new OneSidedWork.Wait(List.of(new OneSidedWork.Awaited((rank + n - 1) % n, 2)));
      for (OneSidedWork each : List.of(signal, signal, wait)) {
        communicator.launch(communicator.prepare(each), null, null, ranks.streams.get(rank));
      }
    }
    ranks.synchronize();
  }

  @Test
  void aMissingRankIsATimeoutThatNamesIt() {
    try (GpuRanks ranks = new GpuRanks(CollectiveGpuTest.size(), Duration.ofMillis(200));
        DirectRanks windows = new DirectRanks(ranks, MOST)) {
      launchMaximum(ranks, windows, 0, windows.send.get(0), 100);
      assertThrows(TimeoutException.class, () -> ranks.streams.get(0).synchronize());
    }
  }
}
