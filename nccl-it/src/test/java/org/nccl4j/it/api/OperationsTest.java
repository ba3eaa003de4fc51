package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.IntToDoubleFunction;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Group;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/** Every operation through the user's API, from the user's point of view. */
@Timeout(600)
class OperationsTest {
  private static final int N = 1000;

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 5, 8})
  void everyOperation(int n) throws Exception {
    try (Ranks ranks = new Ranks(n)) {
      everyOperation(ranks, N);
    }
  }

  /** Calls every operation, and compares with what must come out. */
  static void everyOperation(Ranks ranks, int count) throws Exception {
    int n = ranks.communicators.size();
    ranks.run(
        (comm, stream) -> {
          int rank = comm.rank();
          try (DeviceMemory one = Ranks.floats(count, i -> rank * 10 + i % 3);
              DeviceMemory many = Ranks.floats(n * count, i -> rank * 10 + i / count);
              DeviceMemory outOne = Ranks.floats(count, i -> -1);
              DeviceMemory outMany = Ranks.floats(n * count, i -> -1)) {
            double sum = 10.0 * n * (n - 1) / 2;
            comm.allReduce(one, outOne, count, DataType.FLOAT32, RedOp.SUM, stream);
            expect(stream, outOne, i -> sum + n * (i % 3));
            comm.broadcast(one, outOne, count, DataType.FLOAT32, n - 1, stream);
            expect(stream, outOne, i -> (n - 1) * 10 + i % 3);
            comm.reduce(one, outOne, count, DataType.FLOAT32, RedOp.MAX, 0, stream);
            if (rank == 0) {
              expect(stream, outOne, i -> (n - 1) * 10 + i % 3);
            }
            comm.allGather(one, outMany, count, DataType.FLOAT32, stream);
            expect(stream, outMany, i -> i / count * 10 + i % count % 3);
            comm.reduceScatter(many, outOne, count, DataType.FLOAT32, RedOp.SUM, stream);
            expect(stream, outOne, i -> sum + n * rank);
            comm.allToAll(many, outMany, count, DataType.FLOAT32, stream);
            expect(stream, outMany, i -> i / count * 10 + rank);
            comm.gather(one, outMany, count, DataType.FLOAT32, n - 1, stream);
            if (rank == n - 1) {
              expect(stream, outMany, i -> i / count * 10 + i % count % 3);
            }
            comm.scatter(many, outOne, count, DataType.FLOAT32, 0, stream);
            expect(stream, outOne, i -> rank);
            stream.synchronize();
          }
        });
  }

  private static void expect(DeviceStream stream, DeviceMemory memory, IntToDoubleFunction value) {
    stream.synchronize();
    Ranks.assertFloats(value, Ranks.floats(memory), "data");
  }

  @Test
  void aRingOfSendsInAGroup() throws Exception {
    int n = 4;
    int count = 300_000;
    try (Ranks ranks = new Ranks(n)) {
      ranks.run(
          (comm, stream) -> {
            int rank = comm.rank();
            try (DeviceMemory out = Ranks.floats(count, i -> rank);
                DeviceMemory in = Ranks.floats(count, i -> -1)) {
              Group.run(
                  () -> {
                    comm.send(out, count, DataType.FLOAT32, (rank + 1) % n, stream);
                    comm.recv(in, count, DataType.FLOAT32, (rank + n - 1) % n, stream);
                  });
              expect(stream, in, i -> (rank + n - 1) % n);
            }
          });
    }
  }

  @Test
  void oneThreadDrivesAllRanksInAGroup() {
    int n = 3;
    try (Ranks ranks = new Ranks(n)) {
      List<DeviceMemory> buffers = new ArrayList<>();
      for (int rank = 0; rank < n; rank++) {
        int mine = rank;
        buffers.add(Ranks.floats(N, i -> mine + 1));
      }
      for (int round = 0; round < 3; round++) {
        Group.run(
            () -> {
              for (int rank = 0; rank < n; rank++) {
                DeviceMemory buffer = buffers.get(rank);
                ranks
                    .communicators
                    .get(rank)
                    .allReduce(
                        buffer, buffer, N, DataType.FLOAT32, RedOp.MAX, ranks.streams.get(rank));
              }
            });
        ranks.streams.forEach(DeviceStream::synchronize);
      }
      buffers.forEach(b -> assertEquals(3f, Ranks.floats(b)[N - 1]));
      buffers.forEach(DeviceMemory::close);
    }
  }

  @Test
  void operationsOnTwoStreamsKeepTheOrderOfTheCalls() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceStream other = comm.device().createStream();
                DeviceMemory a = Ranks.floats(N, i -> 1);
                DeviceMemory b = Ranks.floats(N, i -> 2)) {
              for (int round = 0; round < 20; round++) {
                comm.allReduce(a, a, N, DataType.FLOAT32, RedOp.MAX, stream);
                comm.allReduce(b, b, N, DataType.FLOAT32, RedOp.MIN, other);
              }
              other.synchronize();
              stream.synchronize();
              assertEquals(1f, Ranks.floats(a)[0]);
              assertEquals(2f, Ranks.floats(b)[0]);
            }
          });
    }
  }

  @Test
  void severalCommunicatorsAtOnce() throws Exception {
    try (Ranks first = new Ranks(3);
        Ranks second = new Ranks(2)) {
      Ranks.Body body =
          (comm, stream) -> {
            try (DeviceMemory data = Ranks.floats(N, i -> comm.rank())) {
              for (int round = 0; round < 50; round++) {
                comm.broadcast(data, data, N, DataType.FLOAT32, round % comm.nRanks(), stream);
              }
              stream.synchronize();
            }
          };
      var tasks = first.start(body);
      tasks.addAll(second.start(body));
      for (var task : tasks) {
        task.get();
      }
    }
  }

  @Test
  void launchesThatNobodySynchronizesRunAllTheSame() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = Ranks.floats(N, i -> 1);
                DeviceEvent done = comm.device().createEvent()) {
              comm.allReduce(data, data, N, DataType.FLOAT32, RedOp.SUM, stream);
              stream.record(done);
              while (!done.isComplete()) {
                Thread.onSpinWait();
              }
              assertEquals(2f, Ranks.floats(data)[0]);
            }
          });
    }
  }

  @Test
  void moreLaunchesThanTheStreamHasPlacesFor() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = Ranks.floats(8, i -> 1)) {
              for (int i = 0; i < 5000; i++) {
                comm.allReduce(data, data, 8, DataType.FLOAT32, RedOp.MAX, stream);
              }
              stream.synchronize();
              assertEquals(1f, Ranks.floats(data)[7]);
            }
          });
    }
  }

  @Test
  void allRanksGetTheSameBits() throws Exception {
    int n = 5;
    float[][] results = new float[n][];
    try (Ranks ranks = new Ranks(n)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = Ranks.floats(N, i -> Math.sin(comm.rank() * 7919 + i))) {
              comm.allReduce(data, data, N, DataType.FLOAT32, RedOp.SUM, stream);
              stream.synchronize();
              results[comm.rank()] = Ranks.floats(data);
            }
          });
    }
    for (float[] result : results) {
      assertTrue(Arrays.equals(results[0], result));
    }
  }

  @Test
  void namesOfTransportsAndDecisions() {
    try (Ranks ranks = new Ranks(2)) {
      Communicator comm = ranks.communicators.get(0);
      assertEquals(1, comm.transports().size());
      assertTrue(comm.explain(Operation.ALL_REDUCE, 1000, DataType.FLOAT32).contains("chosen"));
      assertEquals(
          Algorithm.PAIRWISE,
          comm.chosenAlgorithm(Operation.ALL_TO_ALL, 10, DataType.FLOAT32).algorithm());
    }
  }
}
