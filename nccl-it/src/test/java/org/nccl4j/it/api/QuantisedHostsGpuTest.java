package org.nccl4j.it.api;

import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaGraph;
import org.nccl4j.device.cuda.CudaStream;
import org.nccl4j.operation.Operation;

/**
 * Quantised sums that go hierarchically, among processes on GPUs that say they are on several
 * hosts: the bits of the host.
 */
@Tag("gpu")
@Timeout(600)
class QuantisedHostsGpuTest {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);
  private static final int REPLAYS = 3;
  private static final int CALLS = 32;
  private static final Operation[] OPERATIONS = {Operation.ALL_REDUCE, Operation.REDUCE_SCATTER};

  private abstract static class Hierarchical implements HostProcesses.Program {
    @Override
    public CommunicatorConfig configure(CommunicatorConfig config) {
      return config.with("NCCL_ALGO", "Hierarchical");
    }
  }

  /** Every type, format, block, operator and operation, out of place and in place. */
  public static final class EveryCase extends Hierarchical {
    @Override
    public void run(Communicator comm, DeviceStream stream, String hosts, long seed) {
      for (QuantisedCase each : QuantisedSumsTest.cases()) {
        each.check(
            comm, stream, seed, data -> each.expected(data, QuantisedHostsTest.ranks(hosts)));
      }
    }
  }

  /** Counts that leave parts, blocks and shares of errors short, or empty. */
  public static final class ErrorFeedback extends Hierarchical {
    @Override
    public void run(Communicator comm, DeviceStream stream, String hosts, long seed) {
      for (int count : new int[] {17, 33, 1001, 100_003}) {
        for (Operation operation : OPERATIONS) {
          QuantisedCase each =
              new QuantisedCase(operation, DataType.FLOAT32, DataType.INT8, 32, RedOp.AVG, count);
          QuantisedSumsTest.repeat(each, comm, stream, CALLS);
        }
      }
    }
  }

  /** A graph of one call, launched on other data each time. */
  public static final class InAGraph extends Hierarchical {
    @Override
    public void run(Communicator comm, DeviceStream stream, String hosts, long seed) {
      QuantisedCase each =
          new QuantisedCase(
              Operation.ALL_REDUCE,
              DataType.BFLOAT16,
              DataType.FLOAT8_E4M3,
              128,
              RedOp.SUM,
              100_001);
      Communicator view =
          comm.withOptions(CallOptions.defaults().withQuantisation(each.format(), each.block()));
      CudaStream graphs = (CudaStream) stream;
      int n = comm.nRanks();
      try (DeviceMemory send = each.memory(comm, new float[each.count()]);
          DeviceMemory recv = each.memory(comm, new float[each.count()])) {
        graphs.beginCapture();
        each.call(view, send, recv, stream);
        try (CudaGraph graph = graphs.endCapture()) {
          for (int replay = 0; replay < REPLAYS; replay++) {
            float[][] data = new float[n][];
            for (int rank = 0; rank < n; rank++) {
              data[rank] = each.data(rank, n, seed + replay, /* adversarial= */ true);
            }
            try (DeviceMemory next = each.memory(comm, data[comm.rank()])) {
              stream.copy(next, send);
              stream.synchronize();
              graph.launch(graphs);
              stream.synchronize();
            }
            each.compare(
                comm, each.expected(data, QuantisedHostsTest.ranks(hosts)), each.floats(recv));
          }
        }
      }
    }
  }

  private static void run(String hosts, Class<? extends HostProcesses.Program> program)
      throws Exception {
    System.out.println("seed " + SEED);
    HostProcesses.run(hosts, Device.Kind.CUDA, program, SEED);
  }

  @ParameterizedTest
  @ValueSource(strings = {"aabb", "abab", "aabbcc"})
  void everyCase(String hosts) throws Exception {
    run(hosts, EveryCase.class);
  }

  @Test
  void errorFeedback() throws Exception {
    run("aabb", ErrorFeedback.class);
  }

  @Test
  void inAGraph() throws Exception {
    run("aabb", InAGraph.class);
  }
}
