package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.function.IntToDoubleFunction;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Group;
import org.nccl4j.api.Registration;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/** Hierarchical collectives, among ranks of this process that say they are on several hosts. */
@Timeout(600)
class HierarchicalTest {
  private static final CommunicatorConfig PLAIN = CommunicatorConfig.defaults();
  private static final CommunicatorConfig HIERARCHICAL = PLAIN.with("NCCL_ALGO", "Hierarchical");
  private static final List<Operation> OPERATIONS =
      List.of(Operation.ALL_REDUCE, Operation.ALL_GATHER, Operation.REDUCE_SCATTER);

  private static Algorithm chosen(Communicator comm, Operation operation, int count) {
    return comm.chosenAlgorithm(operation, count, DataType.FLOAT32).algorithm();
  }

  private static void expect(DeviceStream stream, DeviceMemory memory, IntToDoubleFunction value) {
    stream.synchronize();
    Ranks.assertFloats(value, Ranks.floats(memory), "data");
  }

  /** Sizes of no element, one, fewer than ranks, odd ones, and of many steps. */
  @ParameterizedTest
  @CsvSource({
    "aabb, 0",
    "aabb, 1",
    "abab, 3",
    "aabb, 777",
    "abba, 70001",
    "aabbcc, 5",
    "aabbcc, 33333",
    "aaabbb, 20011",
    "abcabc, 1001",
    "aabb, 1000003"
  })
  void everyOperationIsRight(String hosts, int count) throws Exception {
    try (Ranks ranks = Ranks.onHosts(hosts, HIERARCHICAL)) {
      for (Operation operation : OPERATIONS) {
        assertEquals(Algorithm.HIERARCHICAL, chosen(ranks.communicators.get(0), operation, count));
      }
      for (int round = 0; round < 2; round++) {
        OperationsTest.everyOperation(ranks, count);
      }
    }
  }

  /** Own elements are multiplied before they are combined, and sums divided afterwards, once. */
  @ParameterizedTest
  @ValueSource(strings = {"aabb", "aaabbb", "aabbcc"})
  void operatorsPrepareAndFinishOnce(String hosts) throws Exception {
    int n = hosts.length();
    int count = 9001;
    double sum = n * (n + 1) / 2.0;
    var half = ReductionOperator.preMulSum(DataType.FLOAT32, 0.5);
    try (Ranks ranks = Ranks.onHosts(hosts, HIERARCHICAL)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory many = Ranks.floats(n * count, i -> comm.rank() + 1);
                DeviceMemory one = Ranks.floats(count, i -> comm.rank() + 1);
                DeviceMemory out = Ranks.floats(count, i -> -1)) {
              comm.allReduce(one, out, count, DataType.FLOAT32, RedOp.AVG, stream);
              expect(stream, out, i -> sum / n);
              comm.allReduce(one, out, count, DataType.FLOAT32, half, stream);
              expect(stream, out, i -> sum / 2);
              comm.reduceScatter(many, out, count, DataType.FLOAT32, RedOp.AVG, stream);
              expect(stream, out, i -> sum / n);
              comm.reduceScatter(many, out, count, DataType.FLOAT32, half, stream);
              expect(stream, out, i -> sum / 2);
            }
          });
    }
  }

  /** Also where the buffers are registered, so that steps are sent from them and received there. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void inPlaceInBuffersOfTheUser(boolean registered) throws Exception {
    int n = 6;
    int count = 300_001;
    CommunicatorConfig config =
        registered ? HIERARCHICAL.with("NCCL4J_NET_ZERO_COPY", "all") : HIERARCHICAL;
    try (Ranks ranks = Ranks.onHosts("aabbcc", config)) {
      ranks.run(
          (comm, stream) -> {
            int rank = comm.rank();
            try (DeviceMemory data = Ranks.floats(n * count, i -> 1)) {
              Registration registration = registered ? comm.register(data) : null;
              for (int round = 0; round < 3; round++) {
                fill(data, i -> rank + i % 5);
                comm.allReduce(data, data, n * count, DataType.FLOAT32, RedOp.SUM, stream);
                expect(stream, data, i -> 15 + n * (i % 5));
                DeviceMemory own = data.slice(4L * rank * count, 4L * count);
                fill(own, i -> 100 * rank + i % 7);
                comm.allGather(own, data, count, DataType.FLOAT32, stream);
                expect(stream, data, i -> 100 * (i / count) + i % count % 7);
                comm.reduceScatter(data, own, count, DataType.FLOAT32, RedOp.SUM, stream);
                expect(stream, own, i -> n * (100 * rank + i % 7));
              }
              if (registered) {
                comm.deregister(registration);
              }
            }
          });
    }
  }

  private static void fill(DeviceMemory memory, IntToDoubleFunction value) {
    ByteBuffer bytes = ByteBuffer.allocate((int) memory.size());
    try (DeviceMemory values = Ranks.floats((int) memory.size() / Float.BYTES, value)) {
      values.read(0, bytes);
    }
    memory.write(0, bytes.flip());
  }

  @ParameterizedTest
  @ValueSource(strings = {"aabb", "aaabbb", "abcabc"})
  void allRanksGetTheSameBits(String hosts) throws Exception {
    int count = 50_001;
    float[][] results = new float[hosts.length()][];
    try (Ranks ranks = Ranks.onHosts(hosts, HIERARCHICAL)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = Ranks.floats(count, i -> Math.sin(comm.rank() * 7919 + i))) {
              comm.allReduce(data, data, count, DataType.FLOAT32, RedOp.SUM, stream);
              stream.synchronize();
              results[comm.rank()] = Ranks.floats(data);
            }
          });
    }
    for (float[] result : results) {
      assertArrayEquals(results[0], result);
    }
  }

  /** As docs/concepts/reduction-order.md has it. */
  @ParameterizedTest
  @CsvSource({"aabb, 2", "aabbcc, 2", "aaabbb, 3", "aaabbbccc, 3"})
  void sumsGoHostByHost(String hosts, int locals) throws Exception {
    int n = hosts.length();
    int part = 700;
    float[][] all = new float[n][n * part];
    for (int rank = 0; rank < n; rank++) {
      Random random = new Random(rank);
      for (int i = 0; i < n * part; i++) {
        all[rank][i] = random.nextFloat();
      }
    }
    try (Ranks ranks = Ranks.onHosts(hosts, HIERARCHICAL)) {
      ranks.run(
          (comm, stream) -> {
            int rank = comm.rank();
            try (DeviceMemory send = Ranks.floats(n * part, i -> all[rank][i]);
                DeviceMemory recv = Ranks.floats(n * part, i -> 0);
                DeviceMemory own = Ranks.floats(part, i -> 0)) {
              comm.allReduce(send, recv, n * part, DataType.FLOAT32, RedOp.SUM, stream);
              expect(stream, recv, i -> sum(all, locals, i / part, i));
              comm.reduceScatter(send, own, part, DataType.FLOAT32, RedOp.SUM, stream);
              expect(stream, own, i -> sum(all, locals, rank, rank * part + i));
            }
          });
    }
  }

  private static float sum(float[][] all, int locals, int owner, int element) {
    int hosts = all.length / locals;
    float before = 0;
    for (int h = 1; h <= hosts; h++) {
      int first = (owner / locals + h) % hosts * locals;
      float others = all[first + (owner + 1) % locals][element];
      for (int i = 2; i < locals; i++) {
        others += all[first + (owner + i) % locals][element];
      }
      float own = all[first + owner % locals][element];
      if (h == 1) {
        before = own + others;
      } else {
        before = first == 0 ? own + others + before : own + before + others;
      }
    }
    return before;
  }

  @Test
  void groupsMixItWithOtherOperations() throws Exception {
    int count = 3001;
    try (Ranks ranks = Ranks.onHosts("aabb", HIERARCHICAL)) {
      ranks.run(
          (comm, stream) -> {
            int n = comm.nRanks();
            int rank = comm.rank();
            try (DeviceMemory sum = Ranks.floats(count, i -> rank + i);
                DeviceMemory own = Ranks.floats(count, i -> rank);
                DeviceMemory all = Ranks.floats(n * count, i -> -1);
                DeviceMemory root = Ranks.floats(3, i -> rank);
                DeviceMemory got = Ranks.floats(1, i -> -1)) {
              Group.run(
                  () -> {
                    comm.send(own, 1, DataType.FLOAT32, (rank + 1) % n, stream);
                    comm.allReduce(sum, sum, count, DataType.FLOAT32, RedOp.SUM, stream);
                    comm.broadcast(root, root, 3, DataType.FLOAT32, 2, stream);
                    comm.allGather(own, all, count, DataType.FLOAT32, stream);
                    comm.recv(got, 1, DataType.FLOAT32, (rank + n - 1) % n, stream);
                  });
              expect(stream, sum, i -> 6 + n * i);
              expect(stream, all, i -> i / count);
              expect(stream, root, i -> 2);
              expect(stream, got, i -> (rank + n - 1) % n);
            }
          });
    }
  }

  @Test
  void aCallMayAskForIt() throws Exception {
    try (Ranks ranks = Ranks.onHosts("aabb", PLAIN.with("NCCL_ALGO", "^Hierarchical"))) {
      ranks.run(
          (comm, stream) -> {
            Communicator by =
                comm.withOptions(CallOptions.defaults().withAlgorithm("Hierarchical"));
            assertTrue(chosen(comm, Operation.ALL_REDUCE, 1000) != Algorithm.HIERARCHICAL);
            assertEquals(Algorithm.HIERARCHICAL, chosen(by, Operation.ALL_REDUCE, 1000));
            try (DeviceMemory data = Ranks.floats(1000, i -> 1)) {
              by.allReduce(data, data, 1000, DataType.FLOAT32, RedOp.SUM, stream);
              expect(stream, data, i -> 4);
              comm.allReduce(data, data, 1000, DataType.FLOAT32, RedOp.SUM, stream);
              expect(stream, data, i -> 16);
            }
          });
    }
  }

  /** Hosts with different numbers of ranks, and with one each, do without, and explain says why. */
  @ParameterizedTest
  @CsvSource({"aab, 1 to 2", "aaabb, 2 to 3", "abc, one each"})
  void otherHostsGoAnotherWay(String hosts, String have) throws Exception {
    try (Ranks ranks = Ranks.onHosts(hosts, HIERARCHICAL)) {
      Communicator comm = ranks.communicators.get(0);
      for (Operation operation : OPERATIONS) {
        String text = comm.explain(operation, 1000, DataType.FLOAT32);
        String why =
            "not offered: Hierarchical needs as many ranks on each host, and more than one";
        assertTrue(text.contains(why + "; these hosts have " + have), text);
        assertFalse(text.contains("Hierarchical Simple"), text);
      }
      assertFalse(comm.explain(Operation.BROADCAST, 1, DataType.INT8).contains("Hierarchical"));
      OperationsTest.everyOperation(ranks, 1001);
    }
  }

  /** A split of whole hosts has it; ranks of one host and those of one rail do not. */
  @Test
  void splitsHaveItWhereTheirRanksAllow() throws Exception {
    try (Ranks ranks = Ranks.onHosts("aabbccdd", HIERARCHICAL)) {
      ranks.run(
          (comm, stream) -> {
            try (Communicator half = comm.split(comm.rank() / 4, comm.rank()).orElseThrow();
                Communicator rail = comm.split(comm.rank() % 2, comm.rank()).orElseThrow();
                DeviceMemory data = Ranks.floats(1001, i -> 1)) {
              assertEquals(Algorithm.HIERARCHICAL, chosen(half, Operation.ALL_REDUCE, 1001));
              half.allReduce(data, data, 1001, DataType.FLOAT32, RedOp.SUM, stream);
              expect(stream, data, i -> 4);
              assertTrue(chosen(rail, Operation.ALL_REDUCE, 1001) != Algorithm.HIERARCHICAL);
              rail.allReduce(data, data, 1001, DataType.FLOAT32, RedOp.SUM, stream);
              expect(stream, data, i -> 16);
            }
          });
    }
  }

  /** The other ranks are in the operation, and wait for the rank on both kinds of rings. */
  @Test
  void aRankThatEndsInTheMiddleIsHeard() throws Exception {
    int count = 1 << 20;
    try (Ranks ranks = Ranks.onHosts("aabbcc", HIERARCHICAL)) {
      List<FutureTask<Void>> tasks =
          ranks.start(
              (comm, stream) -> {
                try (DeviceMemory data = Ranks.floats(count, i -> 1)) {
                  comm.allReduce(data, data, count, DataType.FLOAT32, RedOp.SUM, stream);
                  stream.synchronize();
                  if (comm.rank() == 3) {
                    comm.abort();
                    return;
                  }
                  comm.allReduce(data, data, count, DataType.FLOAT32, RedOp.SUM, stream);
                  stream.synchronize();
                }
              });
      for (int rank = 0; rank < tasks.size(); rank++) {
        FutureTask<Void> task = tasks.get(rank);
        if (rank == 3) {
          task.get(Ranks.PATIENCE_NANOS, TimeUnit.NANOSECONDS);
        } else {
          ExecutionException heard =
              assertThrows(
                  ExecutionException.class,
                  () -> task.get(Ranks.PATIENCE_NANOS, TimeUnit.NANOSECONDS));
          assertTrue(heard.getCause() instanceof NcclException, heard.toString());
        }
      }
    }
  }

  @Test
  void warmCallsAllocateNothing() throws Exception {
    int operations = 200;
    try (Ranks ranks = Ranks.onHosts("aabb", HIERARCHICAL)) {
      Allocation allocation = new Allocation(4, operations, List.of());
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = Ranks.floats(1000, i -> 1)) {
              allocation.measure(
                  () -> {
                    for (int call = 0; call < operations; call++) {
                      comm.allReduce(data, data, 1000, DataType.FLOAT32, RedOp.MAX, stream);
                      stream.synchronize();
                    }
                  });
            }
          });
      allocation.assertNothing();
    }
  }
}
