package org.nccl4j.it.rdma;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Errors of a machine's RDMA name the cause and the remedy. */
@Tag("rdma")
class RdmaBadInputTest {
  private static final String WITHOUT_PRIVILEGE =
      "setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock ";

  @TempDir private Path folder;

  private void assertSays(String command, String... texts)
      throws IOException, InterruptedException {
    String output = new Guest(folder).run(300, command).succeeded().output();
    for (String text : texts) {
      assertTrue(output.contains(text), text + " in: " + output);
    }
  }

  private static String probe() {
    return Guest.main(IbProbe.class, "=rxe0 =rxe0");
  }

  /** Through the switch, with a command between two messages; gives up soon. */
  private static String throughTheSwitch(String command) {
    return "sent() { cat /sys/class/net/ve0/statistics/tx_bytes; }; before=$(sent); "
        + "NCCL_IB_TIMEOUT=10 NCCL_IB_RETRY_CNT=1 "
        + Guest.main(IbProbe.class, "=rxe1 =rxe2 " + command)
        + "; [ $(($(sent) - before)) -gt 100000 ] && echo the switch moved the data || true";
  }

  @Test
  void nothingIsWrong() throws IOException, InterruptedException {
    assertSays(
        probe(), "support true rxe0:1 GID 1: 127.0.0.1 (RoCE v2), rxe1:1", "transferred true");
  }

  @Test
  void theDoctorNamesPortsAndAddresses() throws IOException, InterruptedException {
    assertSays(
        Guest.nccl("doctor") + " || true",
        "rxe0:1 RoCE active",
        "MTU 4096",
        "1: 127.0.0.1 (RoCE v2)",
        "uses GID 1",
        "rxe1:1 RoCE active",
        "1: 10.99.0.1 (RoCE v2)",
        "locked memory");
  }

  @Test
  void lockedMemory() throws IOException, InterruptedException {
    assertSays(
        WITHOUT_PRIVILEGE + "bash -c 'ulimit -l 64; " + probe() + "'",
        "support false",
        "ulimit -l",
        "now 64 KiB",
        "WARNING: InfiniBand is there but not used");
  }

  @Test
  void gidThatIsNotThere() throws IOException, InterruptedException {
    assertSays(
        "NCCL_IB_GID_INDEX=9 " + probe(),
        "error NCCL_IB_GID_INDEX=9, but port rxe0:1 has no GID there",
        "1: 127.0.0.1 (RoCE v2)");
  }

  @Test
  void gidThatLeadsNowhere() throws IOException, InterruptedException {
    assertSays(
        "NCCL_IB_TIMEOUT=10 NCCL_IB_RETRY_CNT=1 NCCL_IB_GID_INDEX=0 " + probe(),
        "error InfiniBand",
        "NCCL_IB_GID_INDEX");
  }

  @Test
  void mtuThatThePathDoesNotTake() throws IOException, InterruptedException {
    assertSays(
        throughTheSwitch("ip link set sw1 mtu 1500"),
        "error InfiniBand: a transfer between rxe1:1",
        "retry",
        "suspect the MTU: packets of 4096 bytes",
        "ip link set mtu");
  }

  @ParameterizedTest
  @CsvSource({"sw0, rxe1", "sw1, rxe2"})
  void linkThatGoesDown(String plug, String device) throws IOException, InterruptedException {
    assertSays(
        throughTheSwitch("ip link set " + plug + " down"),
        "device " + device + " reported for port 1: port error",
        "port " + device + ":1 is down",
        "no queue pair has taken over within 10",
        "ip link set up");
  }

  @Test
  void noDeviceFiles() throws IOException, InterruptedException {
    assertSays(
        "rm -r /dev/infiniband; " + probe(),
        "support false",
        "/dev/infiniband",
        "modprobe ib_uverbs",
        "WARNING: InfiniBand is there but not used");
  }

  @Test
  void noLibrary() throws IOException, InterruptedException {
    assertSays(
        "NCCL_IBVERBS_LIB=libnothere.so.1 " + probe(),
        "support false",
        "libnothere.so.1",
        "apt-get install libibverbs1");
  }

  @Test
  void noPortThatIsUp() throws IOException, InterruptedException {
    assertSays(
        "ip link set ve0 down; NCCL_IB_HCA=rxe1 " + probe(), "support false", "rxe1:1: it is");
  }
}
