package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;

/** Operators beside RedOp's, operations with parts of different sizes, predictions. */
@Timeout(600)
class OperatorsTest {
  private static final DataType F32 = DataType.FLOAT32;

  /** a op b = the one of greater magnitude. */
  private static void greaterMagnitude(
      ByteBuffer a, ByteBuffer b, ByteBuffer target, int count, DataType type) {
    for (int i = 0; i < count; i++) {
      float x = a.getFloat(4 * i);
      float y = b.getFloat(4 * i);
      target.putFloat(4 * i, Math.abs(x) >= Math.abs(y) ? x : y);
    }
  }

  /** As functions in Kotlin and Scala throw it, which declare none. */
  @Test
  void aCheckedExceptionOfAReductionFailsTheCommunicator() throws Exception {
    ReductionOperator failing =
        ReductionOperator.of(
            "failing", (a, b, target, count, type) -> throwUndeclared(new IOException("checked")));
    Queue<ErrorId> seen = new ConcurrentLinkedQueue<>();
    try (Ranks ranks = new Ranks(2, CommunicatorConfig.defaults())) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory memory = comm.device().allocate(4096)) {
              Executable call =
                  () -> {
                    comm.allReduce(memory, memory, 1024, F32, failing, stream);
                    stream.synchronize();
                  };
              seen.add(assertThrows(NcclException.class, call).id());
              assertThrows(NcclException.class, call, "a failed communicator");
            }
          });
    }
    assertTrue(seen.contains(ErrorId.USER_FUNCTION), seen.toString());
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> void throwUndeclared(Throwable e) throws E {
    throw (E) e;
  }

  @ParameterizedTest
  @CsvSource({
    "Ring,Simple,1",
    "Ring,LL,5000",
    "Tree,Simple,70000",
    "Tree,LL,33",
    "OneShot,LL,3",
    "OneShot,Simple,9000",
    "TwoShot,Simple,100001",
    "TwoShot,LL,1000",
    "Doubling,LL128,1000",
    "Doubling,Simple,100001"
  })
  void suppliedReductionsAndScalars(String algorithm, String protocol, int count) throws Exception {
    CommunicatorConfig config =
        CommunicatorConfig.defaults().with("NCCL_ALGO", algorithm).with("NCCL_PROTO", protocol);
    ReductionOperator greatest =
        ReductionOperator.of("greatest magnitude", OperatorsTest::greaterMagnitude);
    try (Ranks ranks = new Ranks(3, config)) {
      ranks.run(
          (comm, stream) -> {
            int rank = comm.rank();
            try (DeviceMemory data = Ranks.floats(count, i -> rank == i % 3 ? -9 - i : rank);
                DeviceMemory ones = Ranks.floats(count, i -> 1 + i % 4);
                DeviceMemory out = Ranks.floats(count, i -> 0)) {
              comm.allReduce(data, out, count, F32, greatest, stream);
              stream.synchronize();
              Ranks.assertFloats(i -> -9 - i, Ranks.floats(out), "greatest");
              ReductionOperator scaled = ReductionOperator.preMulSum(F32, rank + 0.5);
              comm.allReduce(ones, out, count, F32, scaled, stream);
              stream.synchronize();
              Ranks.assertFloats(i -> 4.5f * (1 + i % 4), Ranks.floats(out), "scaled");
            }
          });
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 4})
  void aScalarInMemoryIsReadWhenTheOperationRuns(int n) throws Exception {
    try (Ranks ranks = new Ranks(n)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory scalar = Ranks.floats(1, i -> 2);
                DeviceMemory part = Ranks.floats(50, i -> 1);
                DeviceMemory whole = Ranks.floats(50 * n, i -> 1)) {
              ReductionOperator scaled = ReductionOperator.preMulSum(F32, scalar);
              for (int times = 2; times < 5; times++) {
                ByteBuffer value = ByteBuffer.allocate(4).order(ByteOrder.nativeOrder());
                scalar.write(0, value.putFloat(0, times));
                comm.reduceScatter(whole, part, 50, F32, scaled, stream);
                stream.synchronize();
                assertEquals(n * times, Ranks.floats(part)[49]);
                comm.reduce(whole, whole, 50, F32, scaled, n - 1, stream);
                stream.synchronize();
                if (comm.rank() == n - 1) {
                  assertEquals(n * times, Ranks.floats(whole)[49]);
                }
                comm.broadcast(whole, whole, 50, F32, n - 1, stream);
                stream.synchronize();
                DeviceMemory fresh = Ranks.floats(50 * n, i -> 1);
                stream.copy(fresh, whole);
                stream.synchronize();
                fresh.close();
              }
            }
          });
    }
  }

  @Test
  void allTypesOfPreMultipliedSums() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            for (DataType type : DataType.values()) {
              try (DeviceMemory data = Devices.host().allocate(100L * type.bytes())) {
                ReductionOperator zero = ReductionOperator.preMulSum(type, 0);
                data.fill((byte) 1);
                comm.allReduce(data, data, 100, type, zero, stream);
                stream.synchronize();
                byte[] got = new byte[100 * type.bytes()];
                data.read(0, ByteBuffer.wrap(got));
                assertArrayEquals(new byte[got.length], got, type.label());
              }
            }
          });
    }
  }

  @Test
  void wrongOperators() throws Exception {
    try (Ranks ranks = new Ranks(1);
        DeviceMemory data = Ranks.floats(4, i -> 1)) {
      var comm = ranks.communicators.get(0);
      var stream = ranks.streams.get(0);
      ReductionOperator ints = ReductionOperator.preMulSum(DataType.INT32, 2);
      InvalidArgumentException e =
          assertThrows(
              InvalidArgumentException.class,
              () -> comm.allReduce(data, data, 4, F32, ints, stream));
      assertTrue(e.getMessage().contains("was created for int32"), e.getMessage());
      assertThrows(
          InvalidArgumentException.class,
          () -> comm.allReduce(data, data, 4, F32, (ReductionOperator) null, stream));
    }
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            ReductionOperator broken =
                ReductionOperator.of(
                    "broken",
                    (a, b, target, count, type) -> {
                      throw new IllegalStateException("no");
                    });
            try (DeviceMemory data = Ranks.floats(4, i -> 1)) {
              comm.allReduce(data, data, 4, F32, broken, stream);
              InvalidUsageException failure =
                  assertThrows(InvalidUsageException.class, stream::synchronize);
              assertTrue(failure.getMessage().contains("broken"), failure.getMessage());
            }
          });
    }
  }

  @Test
  void partsOfDifferentSizes() throws Exception {
    long seed = Long.getLong("nccl4j.seed", 4711);
    Random random = new Random(seed);
    for (int n : new int[] {1, 2, 3, 5}) {
      long[][] matrix = new long[n][n];
      for (long[] row : matrix) {
        for (int c = 0; c < n; c++) {
          row[c] = random.nextInt(4) == 0 ? 0 : random.nextInt(20_000);
        }
      }
      try (Ranks ranks = new Ranks(n)) {
        ranks.run((comm, stream) -> new VariableRound(comm, stream, matrix).run());
      }
    }
  }

  /** One rank's part of the v-operations, with row 0 as the counts of one-sided ones. */
  private record VariableRound(Communicator comm, DeviceStream stream, long[][] matrix) {
    void run() {
      gather();
      scatter();
      exchange();
    }

    private static int total(long[] counts) {
      return (int) LongStream.of(counts).sum();
    }

    private void gather() {
      long[] counts = matrix[0];
      int mine = (int) counts[comm.rank()];
      long[] offsets = new long[counts.length];
      for (int r = 1; r < counts.length; r++) {
        offsets[r] = offsets[r - 1] + counts[r - 1] + 3;
      }
      int size = total(counts) + 3 * counts.length;
      try (DeviceMemory send = Ranks.floats(mine, i -> comm.rank() * 100_000 + i);
          DeviceMemory recv = Ranks.floats(size, i -> -1)) {
        comm.allGatherV(send, recv, counts, offsets, F32, stream);
        stream.synchronize();
        float[] got = Ranks.floats(recv);
        float[] expected = new float[size];
        Arrays.fill(expected, -1);
        for (int r = 0; r < counts.length; r++) {
          for (int i = 0; i < counts[r]; i++) {
            expected[(int) offsets[r] + i] = r * 100_000 + i;
          }
        }
        assertArrayEquals(expected, got);
      }
    }

    private void scatter() {
      long[] counts = matrix[0];
      int mine = (int) counts[comm.rank()];
      int begin = total(Arrays.copyOf(counts, comm.rank()));
      int n = comm.nRanks();
      try (DeviceMemory send = Ranks.floats(total(counts), i -> i % 1000 + comm.rank());
          DeviceMemory recv = Ranks.floats(mine, i -> -1)) {
        comm.reduceScatterV(send, recv, counts, F32, RedOp.SUM, stream);
        stream.synchronize();
        float[] got = Ranks.floats(recv);
        for (int i = 0; i < mine; i++) {
          assertEquals(n * ((begin + i) % 1000) + n * (n - 1) / 2, got[i]);
        }
        ReductionOperator twice = ReductionOperator.preMulSum(F32, 2);
        ReductionOperator greatest = ReductionOperator.of("greatest", OperatorsTest::greatest);
        for (ReductionOperator op : List.of(twice, greatest)) {
          comm.reduceScatterV(send, recv, counts, F32, op, stream);
          stream.synchronize();
          got = Ranks.floats(recv);
          for (int i = 0; i < mine; i++) {
            int first = (begin + i) % 1000;
            int expected = op == twice ? 2 * n * first + n * (n - 1) : first + n - 1;
            assertEquals(expected, got[i]);
          }
        }
      }
    }

    private void exchange() {
      int rank = comm.rank();
      long[] recvs = new long[comm.nRanks()];
      for (int r = 0; r < recvs.length; r++) {
        recvs[r] = matrix[r][rank];
      }
      try (DeviceMemory send = Ranks.floats(total(matrix[rank]), i -> rank * 100_000 + i);
          DeviceMemory recv = Ranks.floats(total(recvs), i -> -1)) {
        comm.allToAllV(send, matrix[rank], null, recv, recvs, null, F32, stream);
        stream.synchronize();
        float[] got = Ranks.floats(recv);
        int at = 0;
        for (int r = 0; r < recvs.length; r++) {
          int begin = total(Arrays.copyOf(matrix[r], rank));
          for (int i = 0; i < recvs[r]; i++) {
            assertEquals(r * 100_000 + begin + i, got[at++]);
          }
        }
      }
    }
  }

  /** One thread drives all ranks: parts of a root's data go out, and come back. */
  @Test
  void partsGoOutAndComeBackInGroupsOfOneThread() {
    long[] counts = {3, 0, 5};
    try (Ranks ranks = new Ranks(3);
        DeviceMemory data = Ranks.floats(8, i -> i);
        DeviceMemory back = Ranks.floats(8, i -> -1)) {
      List<DeviceMemory> parts = new ArrayList<>();
      Group.run(
          () -> {
            for (int rank = 0; rank < 3; rank++) {
              DeviceMemory part = Ranks.floats((int) counts[rank], i -> -1);
              parts.add(part);
              ranks
                  .communicators
                  .get(rank)
                  .scatterV(data, part, counts, null, F32, 1, ranks.streams.get(rank));
            }
          });
      Group.run(
          () -> {
            for (int rank = 0; rank < 3; rank++) {
              ranks
                  .communicators
                  .get(rank)
                  .gatherV(parts.get(rank), back, counts, null, F32, 2, ranks.streams.get(rank));
            }
          });
      ranks.streams.forEach(DeviceStream::synchronize);
      assertArrayEquals(new float[] {0, 1, 2}, Ranks.floats(parts.get(0)));
      assertArrayEquals(new float[] {0, 1, 2, 3, 4, 5, 6, 7}, Ranks.floats(back));
      parts.forEach(DeviceMemory::close);
    }
  }

  private static void greatest(
      ByteBuffer a, ByteBuffer b, ByteBuffer target, int count, DataType type) {
    for (int i = 0; i < count; i++) {
      target.putFloat(4 * i, Math.max(a.getFloat(4 * i), b.getFloat(4 * i)));
    }
  }

  @Test
  void wrongParts() {
    try (Ranks ranks = new Ranks(2);
        DeviceMemory data = Ranks.floats(10, i -> 1)) {
      var comm = ranks.communicators.get(0);
      var stream = ranks.streams.get(0);
      InvalidArgumentException e =
          assertThrows(
              InvalidArgumentException.class,
              () -> comm.allGatherV(data, data, new long[] {1}, null, F32, stream));
      assertTrue(e.getMessage().contains("has 1 entries for 2 ranks"), e.getMessage());
      e =
          assertThrows(
              InvalidArgumentException.class,
              () -> comm.allGatherV(data, data, new long[] {6, 6}, null, F32, stream));
      assertTrue(e.getMessage().contains("for rank 1, 6 elements at offset 6"), e.getMessage());
      e =
          assertThrows(
              InvalidArgumentException.class,
              () -> comm.reduceScatterV(data, data, new long[] {-1, 2}, F32, RedOp.SUM, stream));
      assertTrue(e.getMessage().contains("has -1 for rank 0"), e.getMessage());
      for (long[] counts : new long[][] {{6, 4}, {6, 6}}) {
        e =
            assertThrows(
                InvalidArgumentException.class,
                () -> comm.reduceScatterV(data, data.slice(0, 20), counts, F32, RedOp.SUM, stream));
        assertTrue(
            e.getMessage().contains("reduce_scatter_v on rank 0")
                && e.getMessage().contains("recv buffer has fewer than the 6 elements"),
            e.getMessage());
      }
      e =
          assertThrows(
              InvalidArgumentException.class,
              () ->
                  comm.allToAllV(
                      data, new long[] {1, 1}, null, data, new long[] {2, 1}, null, F32, stream));
      assertTrue(e.getMessage().contains("sends 1 elements to itself and receives 2"));
      e =
          assertThrows(
              InvalidArgumentException.class,
              () -> comm.gatherV(data, data, new long[] {0, 1}, null, F32, 2, stream));
      assertTrue(e.getMessage().contains("root 2 is not a rank of 2"), e.getMessage());
      e =
          assertThrows(
              InvalidArgumentException.class,
              () -> comm.gatherV(data, null, new long[] {1, 1}, null, F32, 0, stream));
      assertTrue(e.getMessage().contains("the buffer of counts is null"), e.getMessage());
      e =
          assertThrows(
              InvalidArgumentException.class,
              () -> comm.scatterV(null, data, new long[] {11, 1}, null, F32, 1, stream));
      assertTrue(
          e.getMessage().contains("the recv buffer has fewer than the 11 elements of counts"),
          e.getMessage());
      e =
          assertThrows(
              InvalidArgumentException.class,
              () -> comm.scatterV(data, data, new long[] {1, 10}, null, F32, 0, stream));
      assertTrue(e.getMessage().contains("for rank 1, 10 elements at offset 1"), e.getMessage());
      assertTrue(stream.isIdle());
    }
  }

  @Test
  void predictionsLaunchNothingAndGrowWithTheSize() {
    try (Ranks ranks = new Ranks(2);
        DeviceMemory data = Devices.host().allocate(1 << 20)) {
      var comm = ranks.communicators.get(0);
      var stream = ranks.streams.get(0);
      Duration small = Group.simulate(() -> comm.allReduce(data, data, 16, F32, RedOp.SUM, stream));
      Duration large =
          Group.simulate(
              () -> {
                comm.allReduce(data, data, 1 << 18, F32, RedOp.SUM, stream);
                comm.allToAll(data, data, 1 << 10, F32, stream);
              });
      assertTrue(small.toNanos() > 0 && large.compareTo(small) > 0, small + " " + large);
      assertTrue(stream.isIdle());
      Group.start();
      comm.allReduce(data, data, 16, F32, RedOp.SUM, stream);
      assertEquals(small, Group.simulateEnd());
      assertThrows(InvalidUsageException.class, Group::simulateEnd);
      assertThrows(InvalidUsageException.class, Group::end);
      assertThrows(InvalidUsageException.class, () -> Group.run(Group::simulateEnd));
      assertThrows(InvalidUsageException.class, () -> Group.run(() -> Group.simulate(() -> {})));
    }
  }

  @Test
  void groupsAsFutures() throws Exception {
    try (Ranks ranks = new Ranks(2);
        DeviceMemory a = Ranks.floats(10, i -> 1);
        DeviceMemory b = Ranks.floats(10, i -> 2)) {
      Group.runAsync(
              () -> {
                var comms = ranks.communicators;
                comms.get(0).allReduce(a, a, 10, F32, RedOp.SUM, ranks.streams.get(0));
                comms.get(1).allReduce(b, b, 10, F32, RedOp.SUM, ranks.streams.get(1));
              },
              ranks.streams.get(0),
              ranks.streams.get(1))
          .get(300, TimeUnit.SECONDS);
      assertEquals(3, Ranks.floats(a)[9]);
      assertEquals(3, Ranks.floats(b)[0]);
      assertTrue(
          Group.runAsync(
                  () ->
                      ranks
                          .communicators
                          .get(0)
                          .allReduce(null, a, 1, F32, RedOp.SUM, ranks.streams.get(0)))
              .isCompletedExceptionally());
    }
  }
}
