package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.device.CudaFunctor;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.it.api.FunctionRound.Kind;
import org.nccl4j.operation.Operation;

/** Reductions by users' functions on the host device: of structs, and in the order of the ranks. */
@Timeout(600)
class FunctionReductionsTest {
  private static final String MEMORY = "reductions by functions";

  @ParameterizedTest
  @CsvSource({
    "1,1", "1,1000", "2,1", "2,7", "2,30000", "3,1", "3,2", "3,10007", "3,30000", "5,4", "5,50001"
  })
  void structsAndOrders(int n, int count) throws Exception {
    try (Ranks ranks = new Ranks(n)) {
      ranks.run(
          (comm, stream) -> {
            for (Kind kind : Kind.values()) {
              new FunctionRound(comm, stream, kind, kind.hostOperator(), count, 0).run();
            }
          });
    }
  }

  @Test
  void betweenHosts() throws Exception {
    try (Ranks ranks = Ranks.onHosts("aab", CommunicatorConfig.defaults())) {
      ranks.run(
          (comm, stream) -> {
            for (int count : new int[] {1, 1000, 40_001}) {
              for (Kind kind : Kind.values()) {
                new FunctionRound(comm, stream, kind, kind.hostOperator(), count, 0).run();
              }
            }
          });
    }
  }

  /** Few elements come to all ranks, of many each rank combines a part. */
  @Test
  void theMemoryIsThatOfTheLargestCall() throws Exception {
    int n = 4;
    try (Ranks ranks = new Ranks(n)) {
      ranks.run(
          (comm, stream) -> {
            ReductionOperator operator = Kind.MATRICES.hostOperator();
            long large = 16L << 16;
            try (DeviceMemory data = Devices.host().allocate(large)) {
              data.fill((byte) 1);
              assertEquals(null, comm.memory().get(MEMORY));
              comm.allReduce(data, data, 16, DataType.UINT8, operator, stream);
              assertEquals(n * 16L, comm.memory().get(MEMORY));
              comm.allReduce(data, data, large, DataType.UINT8, operator, stream);
              stream.synchronize();
              assertEquals(large + large / n, comm.memory().get(MEMORY));
              comm.suspend();
              assertEquals(null, comm.memory().get(MEMORY));
              comm.resume();
              data.fill((byte) 0);
              comm.allReduce(data, data, large, DataType.UINT8, operator, stream);
              stream.synchronize();
              assertArrayEquals(new byte[100], FunctionRound.bytes(data, 100));
            }
          });
    }
  }

  /** The root's receive buffer lies in a window, and so do the others', which they do not use. */
  @ParameterizedTest
  @CsvSource({"0,false", "0,true", "1,false", "1,true"})
  void reduceOfBuffersInWindows(int root, boolean inPlace) throws Exception {
    int count = 1 << 20; // so many go in parts, and straight between windows
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory send = Ranks.floats(count, i -> i % 1000 + comm.rank());
                DeviceMemory recv = Devices.host().memAlloc(4L * count)) {
              comm.registerWindow(recv);
              stream.copy(send, recv);
              DeviceMemory from = inPlace ? recv : send;
              comm.reduce(from, recv, count, DataType.FLOAT32, sum(), root, stream);
              stream.synchronize();
              if (comm.rank() == root) {
                checkSums(recv);
              }
              comm.close();
            }
          });
    }
  }

  /** A buffer may be closed after its call in a group, on some ranks alone. */
  @Test
  void allReduceIntoWindowsOfWhichOneIsClosed() throws Exception {
    int count = 1 << 18;
    CommunicatorConfig config =
        CommunicatorConfig.defaults().with("NCCL_ALGO", "allgather:DirectOneShot,Ring");
    try (Ranks ranks = new Ranks(2, config)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory send = Ranks.floats(count, i -> i % 1000 + comm.rank());
                DeviceMemory recv = Devices.host().memAlloc(4L * count)) {
              comm.registerWindow(recv);
              DeviceMemory slice = recv.slice(0, recv.size());
              Group.run(
                  () -> {
                    comm.allReduce(send, slice, count, DataType.FLOAT32, sum(), stream);
                    if (comm.rank() == 1) {
                      slice.close();
                    }
                  });
              stream.synchronize();
              checkSums(recv);
              comm.close();
            }
          });
    }
  }

  /** A sum that goes in steps. */
  private static ReductionOperator sum() {
    return ReductionOperator.function("sum", DataType.FLOAT32)
        .onHost(
            (a, b, target, elements, type) -> {
              for (int i = 0; i < 4 * elements; i += 4) {
                target.putFloat(i, a.getFloat(i) + b.getFloat(i));
              }
            })
        .notCommutative()
        .build();
  }

  /** Of two ranks that have i % 1000 plus their number. */
  private static void checkSums(DeviceMemory recv) {
    float[] got = Ranks.floats(recv);
    for (int i = 0; i < got.length; i++) {
      assertEquals(2 * (i % 1000) + 1, got[i]);
    }
  }

  @Test
  void ofAllRanksInOneThread() {
    int n = 3;
    int count = 5000;
    try (Ranks ranks = new Ranks(n)) {
      ReductionOperator last =
          ReductionOperator.function("last", DataType.INT64)
              .onHost((a, b, target, elements, type) -> FunctionRound.copy(b, target))
              .notCommutative()
              .build();
      List<DeviceMemory> data = new ArrayList<>();
      for (int rank = 0; rank < n; rank++) {
        data.add(Devices.host().allocate(8L * count));
        data.get(rank).fill((byte) (rank + 1));
      }
      Group.run(
          () -> {
            for (int rank = 0; rank < n; rank++) {
              ranks
                  .communicators
                  .get(rank)
                  .allReduce(
                      data.get(rank),
                      data.get(rank),
                      count,
                      DataType.INT64,
                      last,
                      ranks.streams.get(rank));
            }
          });
      ranks.streams.forEach(DeviceStream::synchronize);
      for (DeviceMemory each : data) {
        byte[] got = FunctionRound.bytes(each, 8 * count);
        for (byte value : got) {
          assertEquals(n, value);
        }
        each.close();
      }
      assertTrue(
          Group.simulate(
                      () ->
                          ranks
                              .communicators
                              .get(0)
                              .allReduce(
                                  Devices.host().allocate(80),
                                  Devices.host().allocate(80),
                                  10,
                                  DataType.INT64,
                                  last,
                                  ranks.streams.get(0)))
                  .toNanos()
              > 0);
    }
  }

  /** A commutative function of elements goes by the host's own algorithms. */
  @ParameterizedTest
  @ValueSource(ints = {1, 1001, 70_000})
  void aCommutativeFunctionOfATypeNeedsNoMemory(int count) throws Exception {
    ReductionOperator greatest =
        ReductionOperator.function("greatest", DataType.FLOAT32)
            .onHost(
                (a, b, target, elements, type) -> {
                  for (int i = 0; i < elements; i++) {
                    target.putFloat(4 * i, Math.max(a.getFloat(4 * i), b.getFloat(4 * i)));
                  }
                })
            .onCuda(CudaFunctor.ofSource("Greatest", "not looked at"))
            .build();
    try (Ranks ranks = new Ranks(3)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = Ranks.floats(count, i -> i % 3 == comm.rank() ? i : -1)) {
              comm.prepare(Operation.ALL_REDUCE, count, DataType.FLOAT32, greatest);
              comm.allReduce(data, data, count, DataType.FLOAT32, greatest, stream);
              stream.synchronize();
              float[] got = Ranks.floats(data);
              for (int i = 0; i < count; i++) {
                assertEquals(i, got[i]);
              }
              assertEquals(null, comm.memory().get(MEMORY));
            }
          });
    }
  }

  @Test
  void wrongCallsChangeNothing() throws Exception {
    try (Ranks ranks = new Ranks(1);
        DeviceMemory data = Ranks.floats(24, i -> i)) {
      Communicator comm = ranks.communicators.get(0);
      DeviceStream stream = ranks.streams.get(0);
      ReductionOperator structs = Kind.ARGMAX.hostOperator();
      refused(
          InvalidArgumentException.class,
          "20 bytes are not whole structs of 12",
          () -> comm.allReduce(data, data, 20, DataType.UINT8, structs, stream));
      refused(
          InvalidArgumentException.class,
          "was created for uint8",
          () -> comm.allReduce(data, data, 12, DataType.FLOAT32, structs, stream));
      ReductionOperator gpus =
          ReductionOperator.function("of GPUs", DataType.FLOAT32)
              .onCuda(CudaFunctor.ofSource("Mine", ""))
              .build();
      refused(
          InvalidUsageException.class,
          "this device has no reduction 'of GPUs'",
          () -> comm.reduce(data, data, 4, DataType.FLOAT32, gpus, 0, stream));
      refused(
          InvalidUsageException.class,
          "this device has no reduction 'of GPUs'",
          () -> comm.prepare(Operation.REDUCE, 4, DataType.FLOAT32, gpus));
      refused(
          InvalidArgumentException.class,
          "AllGather does not reduce",
          () -> comm.prepare(Operation.ALL_GATHER, 4, DataType.FLOAT32, gpus));
      refused(
          InvalidUsageException.class,
          "neither for the host device nor for GPUs",
          () -> ReductionOperator.function("none", DataType.INT8).build());
      refused(
          InvalidArgumentException.class,
          "structs of 0 bytes",
          () -> ReductionOperator.functionOfStructs("empty", 0));
      refused(
          InvalidArgumentException.class,
          "does not name a class",
          () -> CudaFunctor.ofSource("Max<float>", ""));
      refused(
          InvalidArgumentException.class,
          "is empty",
          () -> CudaFunctor.ofImage("Max", new byte[0]));
      Communicator quantised =
          comm.withOptions(CallOptions.defaults().withQuantisation(DataType.INT8, 32));
      refused(
          InvalidArgumentException.class,
          "the operator is greater of two",
          () -> quantised.allReduce(data, data, 24, DataType.UINT8, structs, stream));
      assertTrue(stream.isIdle());
      comm.allReduce(data, data, 4, DataType.FLOAT32, RedOp.SUM, stream);
      stream.synchronize();
    }
  }

  private static void refused(
      Class<? extends RuntimeException> kind, String problem, Runnable call) {
    RuntimeException e = assertThrows(kind, call::run);
    assertTrue(e.getMessage().contains(problem), e.getMessage());
  }

  @Test
  void aFunctionThatThrowsFailsTheCall() throws Exception {
    ReductionOperator broken =
        ReductionOperator.functionOfStructs("broken", 24)
            .onHost(
                (a, b, target, count, type) -> {
                  throw new IllegalStateException("no");
                })
            .build();
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = Ranks.floats(12, i -> 1)) {
              comm.allReduce(data, data, 48, DataType.UINT8, broken, stream);
              InvalidUsageException e =
                  assertThrows(InvalidUsageException.class, stream::synchronize);
              assertTrue(e.getMessage().contains("broken failed on 2 elements of 24 bytes"));
            }
          });
    }
  }

  /** A function sees whole structs, in the machine's order of bytes. */
  @Test
  void aFunctionSeesWholeStructs() throws Exception {
    ReductionOperator checking =
        ReductionOperator.functionOfStructs("checking", 10)
            .onHost(
                (a, b, target, count, type) -> {
                  assertEquals(DataType.UINT8, type);
                  assertEquals(ByteOrder.nativeOrder(), target.order());
                  for (ByteBuffer each : List.of(a, b, target)) {
                    assertEquals(10 * count, each.remaining());
                  }
                  FunctionRound.copy(a, target);
                })
            .build();
    try (Ranks ranks = new Ranks(3)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = Devices.host().allocate(10 * 50_001)) {
              data.fill((byte) comm.rank());
              comm.allReduce(data, data, data.size(), DataType.UINT8, checking, stream);
              stream.synchronize();
              assertArrayEquals(new byte[10 * 50_001], FunctionRound.bytes(data, 10 * 50_001));
            }
          });
    }
  }
}
