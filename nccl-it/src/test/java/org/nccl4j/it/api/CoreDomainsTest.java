package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.os.AllowedCores;

/** Ranks that are bound by turns to two cores, which a faked machine has on different nodes. */
@Timeout(600)
class CoreDomainsTest {
  private static final Path ONLINE = Path.of("/sys/devices/system/cpu/online");

  @TempDir private Path system;

  private void write(String file, String text) throws IOException {
    Path path = system.resolve(file);
    Files.createDirectories(path.getParent());
    Files.writeString(path, text + "\n");
  }

  /** Two nodes with a core and a cache each; returns the cores. */
  private List<Integer> twoNodes() throws IOException {
    BitSet allowed = AllowedCores.ofThisThread().cores();
    if (Files.exists(ONLINE)) {
      allowed.and(AllowedCores.parse(Files.readString(ONLINE))); // the kernel binds to no others
    }
    assumeTrue(allowed.cardinality() > 1, "this process has one core");
    List<Integer> cores = allowed.stream().limit(2).boxed().toList();
    write("cpu/online", cores.get(0) + "," + cores.get(1));
    write("node/online", "0-1");
    for (int node = 0; node < 2; node++) {
      int core = cores.get(node);
      write("node/node" + node + "/cpulist", "" + core);
      write("cpu/cpu" + core + "/cache/index0/level", "3");
      write("cpu/cpu" + core + "/cache/index0/size", "16M");
      write("cpu/cpu" + core + "/cache/index0/shared_cpu_list", "" + core);
    }
    return cores;
  }

  @Test
  void threads() throws Exception {
    run(5, 1);
  }

  @Test
  void processes() throws Exception {
    run(4, 2);
  }

  /** Ranks by turns on the processes, so that each has ranks on both nodes. */
  private void run(int n, int processes) throws Exception {
    List<Integer> cores = twoNodes();
    String ids =
        CoreDomainRank.WAYS.stream()
            .map(way -> UniqueId.create(CoreDomainRank.config(way)).toString())
            .collect(Collectors.joining(","));
    List<Process> started = new ArrayList<>();
    try {
      for (int process = 0; process < processes; process++) {
        List<String> command = RankJvm.command();
        int first = process * n / processes;
        int end = (process + 1) * n / processes;
        command.addAll(
            List.of(
                CoreDomainRank.class.getName(),
                system.toString(),
                ids,
                "" + n,
                IntStream.range(first, end)
                    .mapToObj(rank -> rank + ":" + cores.get(rank % 2))
                    .collect(Collectors.joining(","))));
        started.add(new ProcessBuilder(command).inheritIO().start());
      }
      for (Process process : started) {
        assertTrue(process.waitFor(300, TimeUnit.SECONDS), "a process does not end");
        assertEquals(0, process.exitValue());
      }
    } finally {
      started.forEach(Process::destroyForcibly);
    }
  }
}
