package org.nccl4j.transport.p2p;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.Device;

/** Communicators over all GPUs of the machine, as threads and as processes. Needs GPUs. */
@Tag("gpu")
class CudaRanksGpuTest {
  private static final CommunicatorConfig CONFIG =
      CommunicatorConfig.defaults().withOperationTimeout(Duration.ofSeconds(20));

  @Test
  @Tag("two-gpus")
  void threads() throws Exception {
    List<Device> devices = new ArrayList<>(Devices.cuda().list());
    for (int round = 0; round < 3; round++) {
      long start = System.nanoTime();
      List<Communicator> ranks = Communicator.initAll(devices, CONFIG);
      System.out.printf("initAll took %.1f ms%n", (System.nanoTime() - start) / 1e6);
      ExecutorService threads = Executors.newFixedThreadPool(ranks.size());
      List<Future<?>> done = new ArrayList<>();
      for (Communicator rank : ranks) {
        done.add(threads.submit(() -> CudaRank.check(rank)));
      }
      for (Future<?> future : done) {
        future.get();
      }
      threads.shutdown();
      boolean apart = "1".equals(System.getenv("NCCL_P2P_DISABLE"));
      assertEquals(apart ? "SHM" : "P2P", ranks.get(0).transports().get(1));
      ranks.forEach(Communicator::close);
    }
  }

  @Test
  void processes() throws Exception {
    int n = Devices.cuda().list().size();
    String id = UniqueId.create().toString();
    List<Process> processes = new ArrayList<>();
    for (int rank = 0; rank < n; rank++) {
      processes.add(
          new ProcessBuilder(
                  Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                  "-cp",
                  System.getProperty("java.class.path"),
                  CudaRank.class.getName(),
                  Integer.toString(n),
                  Integer.toString(rank),
                  id)
              .redirectErrorStream(true)
              .start());
    }
    for (Process process : processes) {
      // What it prints ends when it does, so it ends in any case.
      process
          .onExit()
          .orTimeout(100, TimeUnit.SECONDS)
          .exceptionally(late -> process.destroyForcibly());
      String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      assertEquals(0, process.waitFor(), output);
    }
  }
}
