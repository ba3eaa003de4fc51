package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;

/** GPUs of two hosts whose ranks make different calls. Needs GPUs. */
@Tag("gpu")
@Tag("two-gpus")
@Timeout(600)
class NetCallMismatchGpuTest {
  private static final int COUNT = 1000;

  /** The call travels with the data, in lines as in slots. */
  @ParameterizedTest
  @ValueSource(strings = {"LL", "Simple"})
  void anotherCountIsToldInEachProtocol(String protocol) throws Exception {
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .withOperationTimeout(Duration.ofSeconds(20))
            .with("NCCL_PROTO", protocol);
    try (Ranks ranks = Ranks.onHosts("ab", Devices.cuda().list(), config)) {
      NcclException error =
          assertThrows(
              NcclException.class,
              () ->
                  ranks.run(
                      (comm, stream) -> {
                        try (DeviceMemory data = comm.device().allocate(4L * 2 * COUNT)) {
                          int count = COUNT + comm.rank();
                          comm.allReduce(data, data, count, DataType.FLOAT32, RedOp.SUM, stream);
                          stream.synchronize();
                        }
                      }));
      // The rank that is asked first has found it itself or has heard of it from the other.
      assertTrue(error.getMessage().contains("make different calls"), error.toString());
    }
  }
}
