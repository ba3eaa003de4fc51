package org.nccl4j.it.rdma;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** InfiniBand keeps the contract of networks over Soft-RoCE, on loopback and with several pairs. */
@Tag("rdma")
class RdmaContractTest {
  @TempDir private Path folder;

  @ParameterizedTest
  @ValueSource(
      strings = {
        "NCCL_IB_HCA==rxe0",
        "NCCL_IB_HCA==rxe1 NCCL_IB_QPS_PER_CONNECTION=4",
        "NCCL_IB_HCA==rxe0 NCCL_IB_QPS_PER_CONNECTION=3 NCCL_IB_SPLIT_DATA_ON_QPS=1"
      })
  void everyCheckIsKept(String settings) throws IOException, InterruptedException {
    Guest.Result result =
        new Guest(folder).run(900, Guest.main(IbContract.class, settings)).succeeded();
    assertEquals(List.of(), Guest.lines(result, "broken: "), result.output());
    assertEquals(
        new IbContract(Map.of()).checks().size(),
        Guest.lines(result, "kept: ").size(),
        result.output());
  }
}
