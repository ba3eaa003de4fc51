package org.nccl4j.it.perf.peer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.DataType;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.it.perf.workload.Cell;
import org.nccl4j.it.perf.workload.Workload;
import org.nccl4j.it.run.Placement;

/** Needs Open MPI with its compiler; is skipped where there is none. */
@Timeout(600)
final class MpiPeerTest {
  private static boolean installed(String tool) {
    return Stream.of(path().split(File.pathSeparator))
        .anyMatch(folder -> Files.isExecutable(Path.of(folder, tool)));
  }

  private static String path() {
    return new ProcessBuilder().environment().getOrDefault("PATH", "");
  }

  /** True if programs for MPI can be compiled: mpicc comes without the headers, too. */
  private static boolean compiles() throws Exception {
    if (!installed("mpicc")) {
      return false;
    }
    Process compiler =
        new ProcessBuilder("mpicc", "-fsyntax-only", "-include", "mpi.h", "-x", "c", "/dev/null")
            .redirectErrorStream(true)
            .redirectOutput(ProcessBuilder.Redirect.DISCARD)
            .start();
    return compiler.waitFor() == 0;
  }

  /** Other hosts reach this one by the interface that NCCL_SOCKET_IFNAME names. */
  @Test
  void theInterfaceOfTheRanksIsUsed() {
    assertTrue(MpiPeer.outward("=lo").isLoopbackAddress());
    NcclException e = assertThrows(NcclException.class, () -> MpiPeer.outward("=none7"));
    assertTrue(e.problem().contains("NCCL_SOCKET_IFNAME==none7 selects no"), e.problem());
  }

  @Test
  void everyWorkloadIsTimed() throws Exception {
    assumeTrue(installed("mpirun") && compiles(), "apt-get install openmpi-bin libopenmpi-dev gcc");
    try (MpiPeer peer = MpiPeer.start(2, 1 << 20, Placement.HERE)) {
      assertTrue(peer.version().startsWith("Open MPI "), peer.version());
      for (Workload workload : Workload.values()) {
        Cell cell = new Cell(workload, DataType.FLOAT32, RedOp.SUM, 1, 1000, false);
        double micros = peer.micros(cell, 2, 10);
        assertTrue(micros > 0 && micros < 1e6, workload + " took " + micros);
      }
    }
  }

  @Test
  void broadcastIsComparedInPlace() throws Exception {
    assumeTrue(installed("mpirun") && compiles(), "apt-get install openmpi-bin libopenmpi-dev gcc");
    try (MpiPeer peer = MpiPeer.start(1, 1024, Placement.HERE)) {
      Cell broadcast = new Cell(Workload.BROADCAST, DataType.FLOAT32, RedOp.SUM, 0, 8, false);
      Cell gather = new Cell(Workload.ALL_GATHER, DataType.FLOAT32, RedOp.SUM, 0, 8, false);
      assertEquals(true, peer.resembles(broadcast.placed(true)));
      assertEquals(false, peer.resembles(broadcast));
      assertEquals(true, peer.resembles(gather));
      assertEquals(false, peer.resembles(gather.placed(true)));
    }
  }
}
