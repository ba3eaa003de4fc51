package org.nccl4j.it.rdma;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Links that go down in the middle of operations over Soft-RoCE. */
@Tag("rdma")
class RdmaFailoverTest {
  @TempDir private Path folder;

  /** Once some megabytes have left by a port, another command runs beside the operation. */
  private static String duringAllReduce(String settings, String command) {
    return "(while [ $(cat /sys/class/net/ve0/statistics/tx_bytes) -lt 20000000 ]; do sleep 0.05;"
        + " done; "
        + command
        + ") & "
        + settings
        + " NCCL_IB_HCA==rxe1,rxe2 NCCL4J_TRANSPORTS=NET NCCL_NET=IB "
        + Guest.nccl(
            "perf all_reduce -b 1M -e 1M -n 200 -w 1 --processes 2 --device host --jit-warmup 0");
  }

  private List<String> failovers(String command) throws IOException, InterruptedException {
    Guest.Result result = new Guest(folder).run(300, command).succeeded();
    assertEquals(1, Guest.lines(result, "# Out of bounds values : 0 OK").size(), result.output());
    List<String> moves =
        result.output().lines().filter(line -> line.contains("has taken over")).toList();
    assertTrue(!moves.isEmpty(), result.output());
    moves.forEach(System.out::println); // for docs/benchmarks/rdma.md
    return moves;
  }

  @Test
  void anotherPortTakesOver() throws IOException, InterruptedException {
    List<String> moves = failovers(duringAllReduce("", "ip link set sw0 down"));
    assertTrue(moves.stream().anyMatch(line -> line.contains("the path rxe2:1 to")), "" + moves);
  }

  @Test
  void theFirstPortIsUsedAgain() throws IOException, InterruptedException {
    List<String> moves =
        failovers(duringAllReduce("", "ip link set sw0 down; sleep 1; ip link set sw0 up"));
    assertTrue(moves.stream().anyMatch(line -> line.contains("are up again")), "" + moves);
  }

  /** One of two merged ports: the other carries all, and then both again. */
  @Test
  void aPortOfAMergedDevice() throws IOException, InterruptedException {
    String packets = "cat /sys/class/infiniband/rxe1/ports/1/hw_counters/sent_pkts";
    List<String> moves =
        failovers(
            "(while [ $("
                + packets
                + ") -lt 10000 ]; do sleep 0.05; done;"
                + " ip link set sw0 down; sleep 1; ip link set sw0 up) & "
                + "NCCL_NET_FORCE_MERGE=rxe1,rxe2 NCCL_IB_HCA==rxe1,rxe2 NCCL4J_TRANSPORTS=NET"
                + " NCCL_NET=IB "
                + Guest.nccl(
                    "perf all_reduce -b 1M -e 1M -n 200 -w 1 --processes 2 --device host"
                        + " --jit-warmup 0"));
    assertTrue(moves.stream().anyMatch(line -> line.contains("the path rxe2:1 to")), "" + moves);
    assertTrue(
        moves.stream().anyMatch(line -> line.contains("the path rxe1:1+rxe2:1 to")), "" + moves);
  }

  /** The adapters give up, and there is no port that is up for a while. */
  @Test
  void linksThatAreAllDownForAWhile() throws IOException, InterruptedException {
    failovers(
        duringAllReduce(
            "NCCL_IB_TIMEOUT=10 NCCL_IB_RETRY_CNT=1",
            "ip link set sw0 down; ip link set sw1 down; sleep 2;"
                + " ip link set sw0 up; ip link set sw1 up"));
  }
}
