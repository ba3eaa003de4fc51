package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaGraph;
import org.nccl4j.device.cuda.CudaStream;

/**
 * Several collectives, copies by copy engines, sends and receives in one graph, replayed with other
 * data each time, while the library's observer looks at the communicators. Needs GPUs.
 */
@Tag("gpu")
@Tag("two-gpus")
class GraphsGpuTest {
  private static final int COUNT = 300_001;
  private static final int REPLAYS = 6;

  @Test
  void everythingIsDoneAgainAtEachReplay() throws Exception {
    List<Device> devices = List.copyOf(Devices.cuda().list());
    CommunicatorConfig config =
        CommunicatorConfig.defaults().withOperationTimeout(Duration.ofSeconds(20));
    List<Communicator> ranks = Communicator.initAll(devices, config);
    ExecutorService threads = Executors.newFixedThreadPool(ranks.size());
    try {
      List<Future<?>> done = new ArrayList<>();
      for (Communicator rank : ranks) {
        done.add(threads.submit(() -> replay(rank)));
      }
      for (Future<?> future : done) {
        future.get();
      }
    } finally {
      threads.shutdown();
      ranks.forEach(Communicator::close);
    }
  }

  private static void replay(Communicator comm) {
    int n = comm.nRanks();
    int rank = comm.rank();
    try (DeviceMemory input = comm.device().memAlloc(4L * COUNT);
        DeviceMemory gathered = comm.device().memAlloc(4L * n * COUNT);
        DeviceMemory sum = comm.device().allocate(4L * COUNT);
        DeviceMemory received = comm.device().allocate(4L * COUNT);
        CudaStream stream = (CudaStream) comm.device().createStream()) {
      comm.registerWindow(input);
      comm.registerWindow(gathered);
      CallOptions copies = CallOptions.defaults().withAlgorithm("CopyEngine");
      stream.beginCapture();
      comm.allReduce(input, sum, COUNT, DataType.INT32, RedOp.SUM, stream);
      comm.withOptions(copies).allGather(input, gathered, COUNT, DataType.INT32, stream);
      Group.run(
          () -> {
            comm.send(sum, COUNT, DataType.INT32, (rank + 1) % n, stream);
            comm.recv(received, COUNT, DataType.INT32, (rank + n - 1) % n, stream);
          });
      comm.allReduce(input, sum, 10, DataType.INT32, RedOp.MAX, stream);
      try (CudaGraph graph = stream.endCapture()) {
        for (int replay = 1; replay <= REPLAYS; replay++) {
          input.write(0, values(replay, rank));
          graph.launch(stream);
          stream.synchronize();
          check(comm, replay, gathered, sum, received);
        }
      }
    }
  }

  /** A rank's input at a replay. */
  private static int value(int replay, int rank, int i) {
    return 1000 * replay + 7 * rank + i % 101;
  }

  private static ByteBuffer values(int replay, int rank) {
    ByteBuffer values = ByteBuffer.allocate(4 * COUNT).order(ByteOrder.nativeOrder());
    for (int i = 0; i < COUNT; i++) {
      values.putInt(value(replay, rank, i));
    }
    return values.flip();
  }

  private static void check(
      Communicator comm,
      int replay,
      DeviceMemory gathered,
      DeviceMemory sum,
      DeviceMemory received) {
    int n = comm.nRanks();
    ByteBuffer all = read(gathered);
    ByteBuffer sums = read(sum);
    ByteBuffer got = read(received);
    for (int i = 0; i < COUNT; i++) {
      int expected = 0;
      for (int rank = 0; rank < n; rank++) {
        assertEquals(value(replay, rank, i), all.getInt(4 * (rank * COUNT + i)));
        expected += value(replay, rank, i);
      }
      assertEquals(i < 10 ? value(replay, n - 1, i) : expected, sums.getInt(4 * i));
      assertEquals(expected, got.getInt(4 * i));
    }
  }

  private static ByteBuffer read(DeviceMemory memory) {
    ByteBuffer data = ByteBuffer.allocateDirect((int) memory.size()).order(ByteOrder.nativeOrder());
    memory.read(0, data);
    return data.flip();
  }
}
