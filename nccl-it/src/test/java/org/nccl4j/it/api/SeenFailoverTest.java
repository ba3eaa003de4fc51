package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.it.cli.Main;

/**
 * Sockets that are reset in the middle of operations, as {@code nccl diagnose} and {@code nccl top}
 * show them.
 */
@Timeout(600)
class SeenFailoverTest {
  private static final int COUNT = 1 << 19;
  private static final int TIMES = 4;
  private static final long PATIENCE_NANOS = 300_000_000_000L;

  private static final String LINE =
      "rank [01]: [1-9]\\d* paths? to rank [01] replaced, the last \\d+ s ago by lo 127\\.0\\.0\\.1 to"
          + " 127\\.0\\.0\\.1, \\d+ bytes sent again";

  private static CommunicatorConfig with(String faults) {
    return CommunicatorConfig.defaults()
        .withTransports(List.of("NET"))
        .withNetName("FaultySocket")
        .withName("cut")
        .with("NCCL_SOCKET_IFNAME", "lo")
        .with("NCCL4J_FAULTS", faults);
  }

  private static void operate(Ranks ranks) throws Exception {
    ranks.run(
        (comm, stream) -> {
          try (DeviceMemory data = Ranks.floats(COUNT, i -> 1)) {
            for (int time = 0; time < TIMES; time++) {
              comm.allReduce(data, data, COUNT, DataType.FLOAT32, RedOp.SUM, stream);
            }
            stream.synchronize();
            assertEquals(1 << TIMES, Ranks.floats(data)[COUNT - 1]);
          }
        });
  }

  private static String said(String... command) {
    StringWriter out = new StringWriter();
    PrintWriter to = new PrintWriter(out, true);
    int status = Main.run(to, to, command); // 1 for a communicator of an earlier test that failed
    assertTrue(status <= 1, out.toString());
    return out.toString();
  }

  private static String pid() {
    return Long.toString(ProcessHandle.current().pid());
  }

  @Test
  void ranksPathAndBytesAreNamed() throws Exception {
    try (Ranks ranks = new Ranks(2, with("resetsAfter=1000000"))) {
      operate(ranks);
      long end = System.nanoTime() + PATIENCE_NANOS;
      String said;
      do {
        said = said("diagnose", pid());
      } while (!said.contains("replaced") && System.nanoTime() < end);
      List<String> lines = said.lines().filter(line -> line.contains("replaced")).toList();
      assertFalse(lines.isEmpty(), said);
      for (String line : lines) {
        assertTrue(line.strip().matches(LINE), line);
      }
      String top = said("top", "-n", "1", "-i", "0.1", pid());
      assertTrue(top.lines().anyMatch(line -> line.strip().matches(LINE)), top);
    }
  }

  @Test
  void withoutACutDiagnoseSaysNothingOfIt() throws Exception {
    try (Ranks ranks = new Ranks(2, with("piece=0"))) {
      operate(ranks);
      assertFalse(said("diagnose", pid()).contains("replaced"));
    }
  }
}
