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
  private static final int TYPES = 12;
  private static final int OPERATORS = 5;

  @TempDir private Path folder;

  @ParameterizedTest
  @CsvSource({"rxe0, 1, 0", "rxe1, 4, 0", "rxe1, 2, 1", "'rxe1,rxe2', 2, 0"})
  void allCollectivesBetweenTwoProcesses(String device, int pairs, int split)
      throws IOException, InterruptedException {
    Guest.Result result =
        new Guest(folder)
            .run(
                300,
                "NCCL_IB_HCA==%s".formatted(device)
                    + " NCCL_IB_QPS_PER_CONNECTION=%d NCCL_IB_SPLIT_DATA_ON_QPS=%d "
                        .formatted(pairs, split)
                    + overInfiniBand("perf all -b 4 -e 1M -f 64 -n 2 -w 1"))
            .succeeded();
    assertEquals(
        COLLECTIVES, Guest.lines(result, "# Out of bounds values : 0 OK").size(), result.output());
  }

  /** Large steps are sent from registered buffers and received there. */
  @ParameterizedTest
  @CsvSource({"rxe0, 1, 0", "rxe1, 2, 1"})
  void allCollectivesFromAndIntoRegisteredBuffers(String device, int pairs, int split)
      throws IOException, InterruptedException {
    Guest.Result result =
        new Guest(folder)
            .run(
                300,
                "NCCL_IB_HCA==%s".formatted(device)
                    + " NCCL_IB_QPS_PER_CONNECTION=%d NCCL_IB_SPLIT_DATA_ON_QPS=%d "
                        .formatted(pairs, split)
                    + overInfiniBand(
                        "perf all -b 64K -e 1M -f 16 -n 2 -w 1 -R 1 " + Guest.TWO_HOSTS))
            .succeeded();
    assertEquals(
        COLLECTIVES, Guest.lines(result, "# Out of bounds values : 0 OK").size(), result.output());
  }

  /** Two devices that are merged into one: half of each long message goes over each. */
  @Test
  void allCollectivesOverMergedPorts() throws IOException, InterruptedException {
    String sent = "cat /sys/class/infiniband/rxe[12]/ports/1/hw_counters/sent_pkts";
    Guest.Result result =
        new Guest(folder)
            .run(
                300,
                "NCCL_IB_HCA==rxe1,rxe2 NCCL_NET_FORCE_MERGE=rxe1,rxe2 "
                    + overInfiniBand("perf all -b 4 -e 1M -f 64 -n 2 -w 1")
                    + "; "
                    + sent)
            .succeeded();
    assertEquals(
        COLLECTIVES, Guest.lines(result, "# Out of bounds values : 0 OK").size(), result.output());
    List<Long> packets =
        result.output().lines().filter(line -> line.matches("\\d+")).map(Long::valueOf).toList();
    assertEquals(2, packets.size(), result.output());
    long least = Math.min(packets.get(0), packets.get(1));
    assertTrue(least > (packets.get(0) + packets.get(1)) / 3, packets.toString());
  }

  @Test
  void allTypesAndOperators() throws IOException, InterruptedException {
    Guest.Result result =
        new Guest(folder)
            .run(300, overInfiniBand("perf all_reduce -d all -o all -b 64K -e 64K -n 1 -w 0"))
            .succeeded();
    assertEquals(1, Guest.lines(result, "# Out of bounds values : 0 OK").size(), result.output());
    long rows = result.output().lines().filter(line -> line.startsWith("       65536 ")).count();
    assertEquals(TYPES * OPERATORS, rows, result.output());
  }

  /** Two ranks as processes, without rounds that are only to warm the compiler up. */
  private static String overInfiniBand(String perf) {
    return "NCCL4J_TRANSPORTS=NET NCCL_NET=IB "
        + Guest.nccl(perf + " --processes 2 --device host --jit-warmup 0");
  }

  @Test
  void withoutInfiniBandSocketsAreUsedAndItIsSaid() throws IOException, InterruptedException {
    Guest.Result result =
        new Guest(folder)
            .run(
                600,
                "rm -r /dev/infiniband; NCCL4J_TRANSPORTS=NET "
                    + Guest.nccl(
                        "perf all_reduce --processes 2 --device host -b 64K -e 64K -n 2 -w 1"
                            + " --jit-warmup 0"))
            .succeeded();
    List<String> warnings =
        result.output().lines().filter(line -> line.contains("InfiniBand is there")).toList();
    assertTrue(warnings.stream().anyMatch(line -> line.contains("modprobe")), result.output());
    assertTrue(warnings.stream().anyMatch(line -> line.contains("Socket")), result.output());
  }

  @Test
  void whereOnlyInfiniBandIsAllowedItsAbsenceIsAnError() throws IOException, InterruptedException {
    Guest.Result result =
        new Guest(folder)
            .run(
                600,
                "rm -r /dev/infiniband; "
                    + overInfiniBand("perf all_reduce -b 64K -e 64K -n 2 -w 1"));
    assertTrue(result.status() != 0, result.output());
    assertTrue(result.output().contains("/dev/infiniband"), result.output());
  }
}
