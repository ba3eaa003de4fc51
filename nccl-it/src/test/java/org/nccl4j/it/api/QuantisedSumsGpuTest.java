package org.nccl4j.it.api;

import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaGraph;
import org.nccl4j.device.cuda.CudaStream;
import org.nccl4j.operation.Operation;

/** Quantised all-reduces and reduce-scatters on all GPUs: the bits of the host. Needs GPUs. */
@Tag("gpu")
@Timeout(600)
class QuantisedSumsGpuTest {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);
  private static final int REPLAYS = 3;

  private static Ranks ranks() {
    CommunicatorConfig config =
        CommunicatorConfig.defaults().withOperationTimeout(Duration.ofSeconds(30));
    return new Ranks(Communicator.initAll(List.copyOf(Devices.cuda().list()), config));
  }

  @Test
  void everyCase() throws Exception {
    System.out.println("seed " + SEED);
    try (Ranks ranks = ranks()) {
      ranks.run((comm, stream) -> QuantisedSumsTest.checkAll(comm, stream, SEED));
    }
  }

  @Test
  void errorFeedback() throws Exception {
    try (Ranks ranks = ranks()) {
      for (RedOp op : new RedOp[] {RedOp.SUM, RedOp.AVG}) {
        QuantisedCase each =
            new QuantisedCase(
                Operation.ALL_REDUCE, DataType.FLOAT32, DataType.INT8, 32, op, 100_000);
        ranks.run((comm, stream) -> QuantisedSumsTest.repeat(each, comm, stream, 32));
      }
    }
  }

  /** The first call of a graph, and a larger one that makes new memories of parts after it. */
  @Test
  void inAGraph() throws Exception {
    QuantisedCase captured = sample(100_000);
    QuantisedCase larger = sample(400_000);
    try (Ranks ranks = ranks()) {
      ranks.run(
          (comm, stream) -> {
            int n = comm.nRanks();
            Communicator view =
                comm.withOptions(CallOptions.defaults().withQuantisation(captured.format(), 128));
            float[][] zeros = new float[n][captured.count()];
            float[][] many = all(larger, n, SEED);
            CudaStream graphs = (CudaStream) stream;
            try (DeviceMemory send = captured.memory(comm, zeros[comm.rank()]);
                DeviceMemory recv = captured.memory(comm, zeros[comm.rank()]);
                DeviceMemory other = larger.memory(comm, many[comm.rank()])) {
              graphs.beginCapture();
              captured.call(view, send, recv, stream);
              try (CudaGraph graph = graphs.endCapture()) {
                larger.call(view, other, other, stream);
                stream.synchronize();
                larger.compare(comm, larger.expected(many), larger.floats(other));
                for (int replay = 0; replay < REPLAYS; replay++) {
                  float[][] data = all(captured, n, SEED + replay);
                  stream.synchronize();
                  try (DeviceMemory next = captured.memory(comm, data[comm.rank()])) {
                    stream.copy(next, send);
                    graph.launch(graphs);
                    stream.synchronize();
                  }
                  captured.compare(comm, captured.expected(data), captured.floats(recv));
                }
              }
            }
          });
    }
  }

  private static float[][] all(QuantisedCase each, int n, long seed) {
    float[][] data = new float[n][];
    for (int rank = 0; rank < n; rank++) {
      data[rank] = each.data(rank, n, seed, /* adversarial= */ true);
    }
    return data;
  }

  private static QuantisedCase sample(int count) {
    return new QuantisedCase(
        Operation.ALL_REDUCE, DataType.BFLOAT16, DataType.FLOAT8_E4M3, 128, RedOp.SUM, count);
  }
}
