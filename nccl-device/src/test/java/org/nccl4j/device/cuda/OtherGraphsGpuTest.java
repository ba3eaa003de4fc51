package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import jcuda.driver.CUgraph;
import jcuda.driver.CUgraphExec;
import jcuda.driver.CUstream;
import jcuda.driver.JCudaDriver;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Graphs that the user captures and launches without this library, while the same communicators
 * work in other streams. Needs GPUs.
 */
@Tag("gpu")
@Tag("two-gpus")
@Timeout(600)
class OtherGraphsGpuTest {
  private static final int RELAXED = 2; // CU_STREAM_CAPTURE_MODE_RELAXED
  private static final int NON_BLOCKING = 1; // CU_STREAM_NON_BLOCKING
  private static final int COUNT = 3000;
  private static final int CAPTURED = 10;
  private static final int ROUNDS = 2000;

  /** A rank: what it captures works on one buffer, what it calls on the other. */
  private static final class Rank implements AutoCloseable {
    final CudaDevice device;
    final CudaKernelCommunicator communicator;
    final CudaStream eager;
    final CUstream users = new CUstream();
    final CUgraphExec graph = new CUgraphExec();
    final DeviceMemory inGraph;
    final DeviceMemory called;
    final KernelPlan plan;

    Rank(GpuRanks ranks, int rank) {
      device = ranks.devices.get(rank);
      communicator = ranks.communicators.get(rank);
      eager = ranks.streams.get(rank);
      inGraph = device.allocate(4L * COUNT);
      called = device.allocate(4L * COUNT);
      plan =
          communicator.prepare(
              new CollectiveWork(
                  Operation.ALL_REDUCE,
                  Algorithm.ONE_SHOT,
                  Protocol.LL,
                  DataType.INT32,
                  RedOp.MAX,
                  0,
                  COUNT,
                  4,
                  1 << 20));
      device.gpu().context().run(this::capture);
    }

    private void capture() {
      check(JCudaDriver.cuStreamCreate(users, NON_BLOCKING));
      CudaStream wrapper = device.wrap(users);
      check(JCudaDriver.cuStreamBeginCapture(users, RELAXED));
      for (int call = 0; call < CAPTURED; call++) {
        communicator.launch(plan, inGraph, inGraph, wrapper);
      }
      CUgraph captured = new CUgraph();
      check(JCudaDriver.cuStreamEndCapture(users, captured));
      check(JCudaDriver.cuGraphInstantiate(graph, captured, 0));
      check(JCudaDriver.cuGraphDestroy(captured));
      wrapper.close();
    }

    void round() {
      device.gpu().context().run(() -> check(JCudaDriver.cuGraphLaunch(graph, users)));
      for (int call = 0; call < 3; call++) {
        communicator.launch(plan, called, called, eager);
      }
    }

    void set(int inGraphs, int calls) {
      fill(inGraph, inGraphs);
      fill(called, calls);
    }

    void expect(int inGraphs, int calls) {
      assertFilled(inGraph, inGraphs);
      assertFilled(called, calls);
    }

    void synchronize() {
      eager.synchronize();
      device.gpu().context().run(() -> check(JCudaDriver.cuStreamSynchronize(users)));
    }

    @Override
    public void close() {
      device
          .gpu()
          .context()
          .run(
              () -> {
                check(JCudaDriver.cuGraphExecDestroy(graph));
                check(JCudaDriver.cuStreamDestroy(users));
              });
      inGraph.close();
      called.close();
    }
  }

  private static void check(int result) {
    assertEquals(0, result);
  }

  private static void fill(DeviceMemory memory, int value) {
    ByteBuffer values = ByteBuffer.allocate(4 * COUNT).order(ByteOrder.nativeOrder());
    while (values.hasRemaining()) {
      values.putInt(value);
    }
    memory.write(0, values.flip());
  }

  private static void assertFilled(DeviceMemory memory, int value) {
    ByteBuffer got = ByteBuffer.allocate(4 * COUNT).order(ByteOrder.nativeOrder());
    memory.read(0, got);
    for (int i = 0; i < COUNT; i++) {
      assertEquals(value, got.getInt(4 * i), "element " + i);
    }
  }

  @Test
  void graphsOfOthersAndCallsDoNotMix() {
    int n = CollectiveGpuTest.size();
    try (GpuRanks ranks = new GpuRanks(n, Duration.ofSeconds(20))) {
      List<Rank> all = new ArrayList<>();
      for (int rank = 0; rank < n; rank++) {
        all.add(new Rank(ranks, rank));
      }
      for (int round = 0; round < ROUNDS; round++) {
        if (round % 50 == 0) {
          for (int rank = 0; rank < n; rank++) {
            all.get(rank).set(1000 * round + rank, 1000 * round + 500 + rank);
          }
        }
        all.forEach(Rank::round);
        if (round % 50 == 49) {
          all.forEach(Rank::synchronize);
          int base = 1000 * (round / 50 * 50) + n - 1;
          all.forEach(rank -> rank.expect(base, base + 500));
        }
      }
      all.forEach(Rank::close);
    }
  }
}
