package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaGraph;
import org.nccl4j.device.cuda.CudaStream;
import org.nccl4j.operation.Operation;

/**
 * Quantised sums that go hierarchically, among ranks on GPUs that say they are on several hosts:
 * the bits of the host. Needs a GPU for each rank.
 */
@Tag("gpu")
@Timeout(600)
class QuantisedHostsGpuTest {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);
  private static final int REPLAYS = 3;
  private static final int CALLS = 32;

  @ParameterizedTest
  @ValueSource(strings = {"aabb", "abab", "aabbcc"})
  void everyCase(String hosts) throws Exception {
    System.out.println("seed " + SEED);
    try (Ranks ranks = onHosts(hosts)) {
      ranks.run(
          (comm, stream) -> {
            for (QuantisedCase each : QuantisedSumsTest.cases()) {
              float[][] data = QuantisedHostsTest.data(each, comm.nRanks());
              try (DeviceMemory send = each.memory(comm, data[comm.rank()]);
                  DeviceMemory recv =
                      comm.device().allocate((long) each.count() * each.type().bytes())) {
                each.call(view(comm, each), send, recv, stream);
                stream.synchronize();
                each.compare(
                    comm, each.expected(data, QuantisedHostsTest.ranks(hosts)), each.floats(recv));
              }
            }
          });
    }
  }

  private static Ranks onHosts(String hosts) {
    List<? extends Device> gpus = Devices.cuda().list();
    assumeTrue(
        gpus.size() >= hosts.length(),
        "needs %d GPUs: kernels of ranks on one may wait for each other's launches"
            .formatted(hosts.length()));
    return Ranks.onHosts(hosts, Devices.cuda().list(), QuantisedHostsTest.HIERARCHICAL);
  }

  /** Counts that leave parts, blocks and shares of errors short, or empty. */
  @ParameterizedTest
  @ValueSource(ints = {17, 33, 1001, 100_003})
  void errorFeedback(int count) throws Exception {
    for (Operation operation : new Operation[] {Operation.ALL_REDUCE, Operation.REDUCE_SCATTER}) {
      QuantisedCase each =
          new QuantisedCase(operation, DataType.FLOAT32, DataType.INT8, 32, RedOp.AVG, count);
      try (Ranks ranks = onHosts("aabb")) {
        ranks.run((comm, stream) -> QuantisedSumsTest.repeat(each, comm, stream, CALLS));
      }
    }
  }

  /** An all-reduce on one buffer, and a reduce-scatter into the rank's part of its elements. */
  @ParameterizedTest
  @EnumSource(
      value = Operation.class,
      names = {"ALL_REDUCE", "REDUCE_SCATTER"})
  void inPlace(Operation operation) throws Exception {
    QuantisedCase each = sample(operation, 10_001);
    try (Ranks ranks = onHosts("aabb")) {
      ranks.run(
          (comm, stream) -> {
            float[][] data = QuantisedHostsTest.data(each, comm.nRanks());
            try (DeviceMemory memory = each.memory(comm, data[comm.rank()])) {
              long bytes = (long) each.count() * each.type().bytes();
              DeviceMemory recv =
                  operation == Operation.ALL_REDUCE
                      ? memory
                      : memory.slice(comm.rank() * bytes, bytes);
              each.call(view(comm, each), memory, recv, stream);
              stream.synchronize();
              each.compare(
                  comm, each.expected(data, QuantisedHostsTest.ranks("aabb")), each.floats(recv));
            }
          });
    }
  }

  /** A graph of one call, launched on other data each time. */
  @Test
  void inAGraph() throws Exception {
    QuantisedCase each = sample(Operation.ALL_REDUCE, 100_001);
    try (Ranks ranks = onHosts("aabb")) {
      ranks.run(
          (comm, stream) -> {
            CudaStream graphs = (CudaStream) stream;
            int n = comm.nRanks();
            try (DeviceMemory send = each.memory(comm, new float[each.count()]);
                DeviceMemory recv = each.memory(comm, new float[each.count()])) {
              graphs.beginCapture();
              each.call(view(comm, each), send, recv, stream);
              try (CudaGraph graph = graphs.endCapture()) {
                for (int replay = 0; replay < REPLAYS; replay++) {
                  float[][] data = new float[n][];
                  for (int rank = 0; rank < n; rank++) {
                    data[rank] = each.data(rank, n, SEED + replay, /* adversarial= */ true);
                  }
                  try (DeviceMemory next = each.memory(comm, data[comm.rank()])) {
                    stream.copy(next, send);
                    stream.synchronize();
                    graph.launch(graphs);
                    stream.synchronize();
                  }
                  each.compare(
                      comm,
                      each.expected(data, QuantisedHostsTest.ranks("aabb")),
                      each.floats(recv));
                }
              }
            }
          });
    }
  }

  private static Communicator view(Communicator comm, QuantisedCase each) {
    return comm.withOptions(CallOptions.defaults().withQuantisation(each.format(), each.block()));
  }

  private static QuantisedCase sample(Operation operation, int count) {
    return new QuantisedCase(
        operation, DataType.BFLOAT16, DataType.FLOAT8_E4M3, 128, RedOp.SUM, count);
  }
}
