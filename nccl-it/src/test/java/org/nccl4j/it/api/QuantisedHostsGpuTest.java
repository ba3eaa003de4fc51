package org.nccl4j.it.api;

import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DeviceMemory;

/**
 * Quantised sums that go hierarchically, among ranks on GPUs that say they are on several hosts:
 * the bits of the host. Needs a GPU, which all ranks share if there is no other.
 */
@Tag("gpu")
@Timeout(600)
class QuantisedHostsGpuTest {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);
  private static final int PATIENCE_SECONDS = 300;

  /** Ranks that share a GPU copy only while no kernel waits: a copy could wait behind one. */
  @ParameterizedTest
  @ValueSource(strings = {"aabb", "abab", "aabbcc"})
  void everyCase(String hosts) throws Exception {
    System.out.println("seed " + SEED);
    CommunicatorConfig config =
        QuantisedHostsTest.HIERARCHICAL.with("NCCL_MULTI_RANK_GPU_ENABLE", "1");
    CyclicBarrier together = new CyclicBarrier(hosts.length());
    try (Ranks ranks = Ranks.onHosts(hosts, Devices.cuda().list(), config)) {
      ranks.run(
          (comm, stream) -> {
            for (QuantisedCase each : QuantisedSumsTest.cases()) {
              float[][] data = QuantisedHostsTest.data(each, comm.nRanks());
              Communicator view =
                  comm.withOptions(
                      CallOptions.defaults().withQuantisation(each.format(), each.block()));
              try (DeviceMemory send = each.memory(comm, data[comm.rank()]);
                  DeviceMemory recv =
                      comm.device().allocate((long) each.count() * each.type().bytes())) {
                together.await(PATIENCE_SECONDS, TimeUnit.SECONDS);
                each.call(view, send, recv, stream);
                stream.synchronize();
                together.await(PATIENCE_SECONDS, TimeUnit.SECONDS);
                each.compare(
                    comm, each.expected(data, QuantisedHostsTest.ranks(hosts)), each.floats(recv));
              }
            }
          });
    }
  }
}
