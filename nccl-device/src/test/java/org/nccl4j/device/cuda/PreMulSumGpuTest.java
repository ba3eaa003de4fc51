package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.reduce.Reductions;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.numeric.ElementWriter;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Pre-multiplied sums against those of elements that the host device has multiplied, with poison
 * around and in the outputs, every rank with a scalar of its own. Needs GPUs.
 */
@Tag("gpu")
class PreMulSumGpuTest {
  private static final int GUARD = 256;
  private static final byte POISON = (byte) 0xA5;
  private static final Duration DEADLINE = Duration.ofSeconds(5);
  private static final List<Operation> COLLECTIVES =
      List.of(Operation.ALL_REDUCE, Operation.REDUCE, Operation.REDUCE_SCATTER);

  /** Odd counts, shifted, in place and with the scalar in memory by chance. */
  @ParameterizedTest
  @EnumSource(DataType.class)
  void everyTypeAlgorithmAndProtocol(DataType type) {
    long seed = Long.getLong("nccl4j.seed", 177 + type.ordinal());
    Random random = new Random(seed);
    try (GpuRanks ranks = new GpuRanks(CollectiveGpuTest.size(), DEADLINE)) {
      for (Operation operation : COLLECTIVES) {
        for (Algorithm algorithm : algorithms(operation)) {
          for (Protocol protocol : Protocol.values()) {
            for (int most : new int[] {40, 3000, 30_000}) {
              int channels = 1 + random.nextInt(most == 40 ? 2 : 24);
              int chunk = random.nextInt(3) == 0 ? 640 : Integer.MAX_VALUE;
              int root = operation == Operation.REDUCE ? random.nextInt(ranks.n) : 0;
              int count = 1 + random.nextInt(most);
              CollectiveWork work =
                  new CollectiveWork(
                      operation,
                      algorithm,
                      protocol,
                      type,
                      RedOp.PROD,
                      root,
                      count,
                      channels,
                      chunk);
              check(ranks, work, random, "seed " + seed);
            }
          }
        }
      }
    }
  }

  /** The most ranks that combine all operands at once: each has 32 peers, and itself. */
  @ParameterizedTest
  @EnumSource(names = {"FLOAT32", "BFLOAT16", "INT32"})
  void theMostOperandsAtOnce(DataType type) {
    long seed = 133 + type.ordinal();
    Random random = new Random(seed);
    try (GpuRanks ranks = new GpuRanks(33, DEADLINE.multipliedBy(4))) {
      for (Operation operation : COLLECTIVES) {
        for (int most : new int[] {40, 3000}) {
          CollectiveWork work =
              new CollectiveWork(
                  operation,
                  Algorithm.ONE_SHOT,
                  Protocol.SIMPLE,
                  type,
                  RedOp.PROD,
                  operation == Operation.REDUCE ? 32 : 0,
                  1 + random.nextInt(most),
                  1,
                  Integer.MAX_VALUE);
          check(ranks, work, random, "seed " + seed);
        }
      }
    }
  }

  /** Slots are used many times over; with many channels those of a ring claim rounds. */
  @Test
  void large() {
    Random random = new Random(5);
    try (GpuRanks ranks = new GpuRanks(CollectiveGpuTest.size(), DEADLINE)) {
      for (Operation operation : COLLECTIVES) {
        for (Algorithm algorithm : algorithms(operation)) {
          for (Protocol protocol : Protocol.values()) {
            for (int channels : new int[] {3, 32}) {
              CollectiveWork work =
                  new CollectiveWork(
                      operation,
                      algorithm,
                      protocol,
                      DataType.FLOAT32,
                      RedOp.PROD,
                      ranks.n - 1,
                      400_003 / (operation == Operation.REDUCE_SCATTER ? ranks.n : 1),
                      channels,
                      channels == 3 ? Integer.MAX_VALUE : 640);
              check(ranks, work, random, "");
            }
          }
        }
      }
    }
  }

  /** One rank multiplies what it has. */
  @ParameterizedTest
  @EnumSource(DataType.class)
  void alone(DataType type) {
    Random random = new Random(type.ordinal());
    try (GpuRanks one = new GpuRanks(1, DEADLINE)) {
      for (Operation operation : COLLECTIVES) {
        for (int count : new int[] {1, 1 + random.nextInt(999), 100_001}) {
          CollectiveWork work =
              new CollectiveWork(
                  operation,
                  Algorithm.RING,
                  Protocol.SIMPLE,
                  type,
                  RedOp.PROD,
                  0,
                  count,
                  1,
                  Integer.MAX_VALUE);
          check(one, work, random, "");
        }
      }
    }
  }

  private static List<Algorithm> algorithms(Operation operation) {
    return Stream.of(Algorithm.TREE, Algorithm.RING, Algorithm.ONE_SHOT)
        .filter(algorithm -> algorithm.has(operation))
        .toList();
  }

  /** A scalar that keeps sums in the type's range, or any that every integer type has. */
  private static double scalar(DataType type, Random random) {
    return type.isFloatingPoint() ? 3 * random.nextDouble() - 1.5 : random.nextInt(128);
  }

  private static ByteBuffer element(DataType type, double scalar) {
    ByteBuffer element = ByteBuffer.allocateDirect(type.bytes()).order(ByteOrder.nativeOrder());
    ElementWriter.put(type, element, scalar);
    return element;
  }

  /** A rank's elements after the host device's multiplication. */
  private static ByteBuffer multiplied(DataType type, ByteBuffer input, double scalar) {
    int bytes = input.remaining();
    ByteBuffer result = ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder());
    try (DeviceMemory from = HostDevice.instance().allocate(bytes);
        DeviceMemory to = HostDevice.instance().allocate(bytes)) {
      from.write(0, input.duplicate());
      Reductions.of(type, ReductionOperator.preMulSum(type, scalar))
          .prepare(HostMemory.of(from), 0, HostMemory.of(to), 0, bytes / type.bytes());
      to.read(0, result);
    }
    return result.flip();
  }

  private static void check(GpuRanks ranks, CollectiveWork work, Random random, String seed) {
    DataType type = work.type();
    int n = ranks.n;
    int element = type.bytes();
    int part = (int) work.count() * element;
    int sendBytes = work.operation() == Operation.REDUCE_SCATTER ? n * part : part;
    boolean inPlace = random.nextBoolean();
    boolean inMemory = random.nextBoolean();
    int shift = random.nextInt(3) == 0 ? random.nextInt(17) * element : 0;
    RandomElements elements =
        new RandomElements(type, RedOp.SUM, n, sendBytes / element, random.nextLong());
    ByteBuffer[] scaled = new ByteBuffer[n];
    List<DeviceMemory> owners = new ArrayList<>();
    List<DeviceMemory> outs = new ArrayList<>();
    List<DeviceMemory> recvs = new ArrayList<>();
    List<DeviceMemory> sends = new ArrayList<>();
    List<KernelPlan> plans = new ArrayList<>();
    for (int rank = 0; rank < n; rank++) {
      CudaDevice device = ranks.devices.get(rank);
      double factor = scalar(type, random);
      scaled[rank] = multiplied(type, elements.inputs[rank], factor);
      DeviceMemory out = device.allocate(2 * GUARD + shift + sendBytes);
      DeviceMemory in = inPlace ? out : device.allocate(2 * GUARD + shift + sendBytes);
      out.fill(POISON);
      int own = inPlace && part < sendBytes ? rank * part : 0;
      sends.add(in.slice(GUARD + shift, sendBytes));
      recvs.add(out.slice(GUARD + shift + own, part));
      sends.get(rank).write(0, elements.inputs[rank].duplicate());
      owners.add(in);
      outs.add(out);
      DeviceMemory scalar = device.allocate(64);
      owners.add(scalar);
      scalar.slice(element, element).write(0, element(type, factor));
      ReductionOperator operator =
          inMemory
              ? ReductionOperator.preMulSum(type, scalar.slice(element, element))
              : ReductionOperator.preMulSum(type, factor);
      plans.add(ranks.communicators.get(rank).prepare(work, operator));
    }
    for (int rank = 0; rank < n; rank++) {
      ranks
          .communicators
          .get(rank)
          .launch(plans.get(rank), sends.get(rank), recvs.get(rank), ranks.streams.get(rank));
    }
    ranks.synchronize();
    RandomElements sums = new RandomElements(type, RedOp.SUM, scaled);
    for (int rank = 0; rank < n; rank++) {
      String what =
          "%s%s%s shifted by %d, rank %d of %d %s"
              .formatted(
                  work,
                  inPlace ? " in place" : "",
                  inMemory ? " by memory" : "",
                  shift,
                  rank,
                  n,
                  seed);
      if (work.operation() != Operation.REDUCE || rank == work.root()) {
        int from = work.operation() == Operation.REDUCE_SCATTER ? rank * (int) work.count() : 0;
        assertNull(sums.wrong(read(recvs.get(rank)), from), what);
      }
      if (inPlace) {
        continue;
      }
      assertEquals(elements.inputs[rank], read(sends.get(rank)), what + ": the input");
      boolean written = work.operation() != Operation.REDUCE || rank == work.root();
      ByteBuffer all = read(outs.get(rank));
      for (int i = 0; i < all.capacity(); i++) {
        boolean outside = i < GUARD + shift || i >= GUARD + shift + part;
        if ((outside || !written) && all.get(i) != POISON) {
          throw new AssertionError(what + ": byte " + i + " of the output written");
        }
      }
    }
    owners.forEach(DeviceMemory::close);
    outs.forEach(DeviceMemory::close);
  }

  /**
   * What is before the operation in its stream has written the scalar, and a graph reads it anew.
   */
  @Test
  void aScalarInMemoryCountsAsItIsWhenTheKernelRuns() {
    int count = 5001;
    try (GpuRanks ranks = new GpuRanks(CollectiveGpuTest.size(), DEADLINE)) {
      int n = ranks.n;
      List<DeviceMemory> all = new ArrayList<>();
      List<DeviceMemory> scalars = new ArrayList<>();
      List<DeviceMemory> sources = new ArrayList<>();
      List<DeviceMemory> sends = new ArrayList<>();
      List<DeviceMemory> recvs = new ArrayList<>();
      for (CudaDevice device : ranks.devices) {
        scalars.add(device.allocate(4));
        sources.add(device.allocate(4));
        sends.add(device.allocate(4 * count));
        recvs.add(device.allocate(4 * count));
      }
      List.of(scalars, sources, sends, recvs).forEach(all::addAll);
      for (int rank = 0; rank < n; rank++) {
        sends.get(rank).write(0, values(count, rank));
      }
      for (Algorithm algorithm : algorithms(Operation.ALL_REDUCE)) {
        for (Protocol protocol : Protocol.values()) {
          CollectiveWork work =
              new CollectiveWork(
                  Operation.ALL_REDUCE,
                  algorithm,
                  protocol,
                  DataType.INT32,
                  RedOp.PROD,
                  0,
                  count,
                  2,
                  Integer.MAX_VALUE);
          List<KernelPlan> plans = new ArrayList<>();
          for (int rank = 0; rank < n; rank++) {
            ReductionOperator operator =
                ReductionOperator.preMulSum(DataType.INT32, scalars.get(rank));
            plans.add(ranks.communicators.get(rank).prepare(work, operator));
          }
          for (int time = 1; time <= 4; time++) { // each overtakes the one before if it can
            for (int rank = 0; rank < n; rank++) {
              CudaStream stream = ranks.streams.get(rank);
              sources.get(rank).write(0, element(DataType.INT32, 10 * time + rank));
              stream.copy(sources.get(rank), scalars.get(rank));
              ranks
                  .communicators
                  .get(rank)
                  .launch(plans.get(rank), sends.get(rank), recvs.get(rank), stream);
            }
            ranks.synchronize();
            checkSums(recvs, count, 10 * time);
          }
          replay(ranks, plans, scalars, sends, recvs, count);
        }
      }
      all.forEach(DeviceMemory::close);
    }
  }

  private static void replay(
      GpuRanks ranks,
      List<KernelPlan> plans,
      List<DeviceMemory> scalars,
      List<DeviceMemory> sends,
      List<DeviceMemory> recvs,
      int count) {
    List<CudaGraph> graphs = new ArrayList<>();
    for (int rank = 0; rank < ranks.n; rank++) {
      CudaStream stream = ranks.streams.get(rank);
      stream.beginCapture();
      ranks
          .communicators
          .get(rank)
          .launch(plans.get(rank), sends.get(rank), recvs.get(rank), stream);
      graphs.add(stream.endCapture());
    }
    for (int time = 1; time <= 3; time++) {
      for (int rank = 0; rank < ranks.n; rank++) {
        scalars.get(rank).write(0, element(DataType.INT32, -7 * time + rank));
        recvs.get(rank).fill(POISON);
      }
      for (int rank = 0; rank < ranks.n; rank++) {
        graphs.get(rank).launch(ranks.streams.get(rank));
      }
      ranks.synchronize();
      checkSums(recvs, count, -7 * time);
    }
    graphs.forEach(CudaGraph::close);
  }

  private static ByteBuffer values(int count, int rank) {
    ByteBuffer values = ByteBuffer.allocateDirect(4 * count).order(ByteOrder.nativeOrder());
    for (int i = 0; i < count; i++) {
      values.putInt(i + 3 * rank);
    }
    return values.flip();
  }

  /**
   * All ranks have the sums.
   *
   * @param first rank's scalar; each other's is one more than that of the rank before
   */
  private static void checkSums(List<DeviceMemory> recvs, int count, int first) {
    for (DeviceMemory recv : recvs) {
      ByteBuffer got = read(recv).order(ByteOrder.nativeOrder());
      for (int i = 0; i < count; i++) {
        int expected = 0;
        for (int rank = 0; rank < recvs.size(); rank++) {
          expected += (i + 3 * rank) * (first + rank);
        }
        assertEquals(expected, got.getInt(4 * i), "element " + i);
      }
    }
  }

  private static ByteBuffer read(DeviceMemory memory) {
    ByteBuffer data = ByteBuffer.allocateDirect((int) memory.size());
    memory.read(0, data);
    return data.flip();
  }
}
