package org.nccl4j.it.perf.peer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.it.perf.workload.Cell;
import org.nccl4j.it.perf.workload.Workload;
import org.nccl4j.it.run.Placement;

/** Needs Open MPI with its compiler; is skipped where there is none. */
@Timeout(120)
final class MpiPeerTest {
  private static boolean installed(String tool) {
    return Stream.of(path().split(File.pathSeparator))
        .anyMatch(folder -> Files.isExecutable(Path.of(folder, tool)));
  }

  private static String path() {
    return new ProcessBuilder().environment().getOrDefault("PATH", "");
  }

  @Test
  void everyWorkloadIsTimed() {
    assumeTrue(installed("mpirun") && installed("mpicc"), "Open MPI is not installed");
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
  void broadcastIsComparedInPlace() {
    assumeTrue(installed("mpirun") && installed("mpicc"), "Open MPI is not installed");
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
