package org.nccl4j.it.rdma;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** All collectives between two processes over Soft-RoCE, checked against the reference. */
@Tag("rdma")
class RdmaCollectivesTest {
  private static final int COLLECTIVES = 11;

  @TempDir private Path folder;

  @ParameterizedTest
  @CsvSource({"rxe0, 1, 0", "rxe1, 4, 0", "rxe1, 2, 1", "'rxe1,rxe2', 2, 0"})
  void allCollectivesBetweenTwoProcesses(String device, int pairs, int split)
      throws IOException, InterruptedException {
    Guest.Result result =
        new Guest(folder)
            .run(
                900,
                "NCCL4J_TRANSPORTS=NET NCCL_NET=IB NCCL_IB_HCA==%s".formatted(device)
                    + " NCCL_IB_QPS_PER_CONNECTION=%d NCCL_IB_SPLIT_DATA_ON_QPS=%d "
                        .formatted(pairs, split)
                    + Guest.nccl("perf all --processes 2 --device host -b 4 -e 1M -f 32 -n 2 -w 1"))
            .succeeded();
    assertEquals(
        COLLECTIVES, Guest.lines(result, "# Out of bounds values : 0 OK").size(), result.output());
  }

  @ParameterizedTest
  @CsvSource({"int8, min", "uint8, max", "half, sum", "bfloat16, avg", "double, prod"})
  void typesAndOperators(String type, String operator) throws IOException, InterruptedException {
    new Guest(folder)
        .run(
            600,
            "NCCL4J_TRANSPORTS=NET NCCL_NET=IB "
                + Guest.nccl(
                    "perf all_reduce --processes 2 --device host -b 4 -e 1M -f 512 -n 2 -w 1 -d %s"
                            .formatted(type)
                        + " -o "
                        + operator))
        .succeeded();
  }

  @Test
  void withoutInfiniBandSocketsAreUsedAndItIsSaid() throws IOException, InterruptedException {
    Guest.Result result =
        new Guest(folder)
            .run(
                600,
                "rm -r /dev/infiniband; NCCL4J_TRANSPORTS=NET "
                    + Guest.nccl(
                        "perf all_reduce --processes 2 --device host -b 64K -e 64K -n 2 -w 1"))
            .succeeded();
    List<String> warnings =
        result.output().lines().filter(line -> line.contains("InfiniBand is there")).toList();
    assertTrue(warnings.stream().anyMatch(line -> line.contains("modprobe")), result.output());
  }

  @Test
  void whereOnlyInfiniBandIsAllowedItsAbsenceIsAnError() throws IOException, InterruptedException {
    Guest.Result result =
        new Guest(folder)
            .run(
                600,
                "rm -r /dev/infiniband; NCCL4J_TRANSPORTS=NET NCCL_NET=IB "
                    + Guest.nccl(
                        "perf all_reduce --processes 2 --device host -b 64K -e 64K -n 2 -w 1"));
    assertTrue(result.status() != 0, result.output());
    assertTrue(result.output().contains("/dev/infiniband"), result.output());
  }
}
