package org.nccl4j.device.host.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.SingleCopy;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * The error of sums of eight ranks, against sums in float64: one rounding for algorithms that see
 * all operands at once. One rank's term is large, and each other term is less than half of its last
 * place: roundings after each addition would drop the terms.
 */
class SumRoundingTest {
  private static final int RANKS = 8;
  private static final int COUNT = 1001;
  private static final Duration DEADLINE = Duration.ofSeconds(30);
  private static final ConnectionLayout LAYOUT = new ConnectionLayout(64 * 16, 7 * 128, 1024);

  /** What each rank has at each place. */
  private final float[][] terms = new float[RANKS][RANKS * COUNT];

  private void make(DataType type) {
    Random random = new Random(7 + type.ordinal());
    for (int place = 0; place < terms[0].length; place++) {
      int large = random.nextInt(RANKS);
      float sign = random.nextBoolean() ? 1 : -1;
      for (int rank = 0; rank < RANKS; rank++) {
        double term =
            rank == large
                ? 4 * (1 + random.nextDouble())
                : 4 * unit(type) * (0.3 + 0.19 * random.nextDouble());
        terms[rank][place] = rounded(type, (float) (sign * term));
      }
    }
  }

  @ParameterizedTest
  @EnumSource(names = {"FLOAT16", "BFLOAT16", "FLOAT8_E4M3", "FLOAT8_E5M2"})
  void oneRoundingWhereAllOperandsMeet(DataType type) {
    make(type);
    try (LocalRanks ranks = new LocalRanks(RANKS, LAYOUT, DEADLINE)) {
      for (Operation operation :
          List.of(Operation.ALL_REDUCE, Operation.REDUCE, Operation.REDUCE_SCATTER)) {
        for (Algorithm algorithm : List.of(Algorithm.ONE_SHOT, Algorithm.TWO_SHOT)) {
          for (Protocol protocol : Protocol.values()) {
            if (algorithm.has(operation)) {
              check(ranks, operation, algorithm, protocol, type);
            }
          }
        }
      }
    }
  }

  @ParameterizedTest
  @EnumSource(names = {"FLOAT16", "BFLOAT16", "FLOAT8_E4M3", "FLOAT8_E5M2"})
  void oneRoundingOfExposures(DataType type) {
    make(type);
    SingleCopy smallest = new SingleCopy(1, SingleCopy.NEVER, System.Logger.Level.DEBUG);
    try (LocalRanks ranks = new LocalRanks(RANKS, LAYOUT, DEADLINE, smallest)) {
      for (Algorithm algorithm : List.of(Algorithm.ONE_SHOT, Algorithm.TWO_SHOT)) {
        check(ranks, Operation.ALL_REDUCE, algorithm, Protocol.SIMPLE, type);
      }
    }
  }

  @ParameterizedTest
  @EnumSource(names = {"FLOAT16", "BFLOAT16"})
  void oneRoundingByNvls(DataType type) {
    make(type);
    try (LocalRanks ranks = new LocalRanks(RANKS, LAYOUT, DEADLINE, 512)) {
      for (Operation operation : List.of(Operation.ALL_REDUCE, Operation.REDUCE_SCATTER)) {
        assertTrue(Nvls.has(operation, type, RedOp.SUM));
        check(ranks, operation, Algorithm.NVLS, Protocol.SIMPLE, type);
      }
    }
  }

  private void check(
      LocalRanks ranks,
      Operation operation,
      Algorithm algorithm,
      Protocol protocol,
      DataType type) {
    for (RedOp op : List.of(RedOp.SUM, RedOp.AVG)) {
      if (algorithm == Algorithm.NVLS && op == RedOp.AVG) {
        continue; // the switch adds means whose terms are rounded
      }
      CollectiveWork work =
          new CollectiveWork(operation, algorithm, protocol, type, op, 3, COUNT, 1, 512);
      List<ByteBuffer> received = run(ranks, work);
      boolean scatters = operation == Operation.REDUCE_SCATTER;
      for (int rank = 0; rank < RANKS; rank++) {
        if (scatters || rank == work.root()) {
          checkError(work, received.get(rank), scatters ? rank * COUNT : 0);
        } else if (operation == Operation.ALL_REDUCE) {
          assertEquals(received.get(work.root()), received.get(rank), work + ", rank " + rank);
        }
      }
    }
  }

  private void checkError(CollectiveWork work, ByteBuffer received, int from) {
    ByteBuffer results = received.duplicate().order(ByteOrder.nativeOrder());
    DataType type = work.type();
    double error = 0;
    double errorByStep = 0;
    for (int place = from; place < from + COUNT; place++) {
      double exact = 0;
      double magnitude = 0;
      double byStep = 0;
      int divisor = work.op() == RedOp.AVG ? RANKS : 1;
      for (float[] rank : terms) {
        exact += rank[place] / divisor;
        magnitude += Math.abs(rank[place] / divisor);
        byStep = rounded(type, (float) (byStep + rounded(type, rank[place] / divisor)));
      }
      double result = Elements.get(type, results);
      double once = unit(type) / 2 * Math.abs(exact) + 0x1p-23 * RANKS * magnitude;
      assertEquals(exact, result, once, work + ", place " + place);
      error += Math.abs(result - exact);
      errorByStep += Math.abs(byStep - exact);
    }
    assertTrue(2 * error < errorByStep, work + ": " + error + ", by steps " + errorByStep);
  }

  private List<ByteBuffer> run(LocalRanks ranks, CollectiveWork work) {
    List<Buffers> buffers = new ArrayList<>();
    for (int rank = 0; rank < RANKS; rank++) {
      Buffers own = new Buffers(HostDevice.instance(), work, rank, RANKS, /* inPlace= */ false, 1);
      buffers.add(own);
      int elements = COUNT * Buffers.sends(work, RANKS);
      ByteBuffer data = buffer(elements * work.type().bytes());
      for (int place = 0; place < elements; place++) {
        Elements.put(work.type(), data, terms[rank][place]);
      }
      own.send.write(0, data.flip());
      KernelCommunicator communicator = ranks.communicators.get(rank);
      communicator.launch(communicator.prepare(work), own.send, own.recv, ranks.streams.get(rank));
    }
    ranks.streams.forEach(DeviceStream::isIdle);
    ranks.streams.forEach(DeviceStream::synchronize);
    List<ByteBuffer> received = buffers.stream().map(Buffers::received).toList();
    buffers.forEach(Buffers::close);
    return received;
  }

  private static ByteBuffer buffer(int bytes) {
    return ByteBuffer.allocate(bytes).order(ByteOrder.nativeOrder());
  }

  private static float rounded(DataType type, float x) {
    ByteBuffer one = buffer(type.bytes());
    Elements.put(type, one, x);
    return (float) Elements.get(type, one.flip());
  }

  /** The distance between 1 and the next number. */
  private static double unit(DataType type) {
    return Math.scalb(1.0, 1 - type.significandBits());
  }
}
