package org.nccl4j.api.init.topology;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.nccl4j.api.Devices;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.bootstrap.LocalBootstrap;
import org.nccl4j.api.init.peers.HostLayout;
import org.nccl4j.api.init.peers.InitRequest;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;

/** The machines and graphs of very many ranks of one process, whose GPUs are in a file alone. */
class TopologyScaleTest {
  private static final Path MACHINE =
      Path.of("../nccl-topo/src/test/resources/org/nccl4j/topo/machines/dgx-h100.xml");

  private static final int GPUS = 8;

  private record Found(TopologyExchange machines, ChannelGraphs graphs) {}

  /** A thread for each rank, eight ranks a host. */
  private static List<Found> exchange(int n, String host) {
    List<PeerInfo> peers = new ArrayList<>();
    for (int rank = 0; rank < n; rank++) {
      peers.add(
          new PeerInfo(rank, host + rank / GPUS, "ns", "process", 0, Device.Kind.HOST, "host"));
    }
    Settings settings = Settings.alone(Map.of("NCCL_TOPO_FILE", MACHINE.toString()));
    InitRequest request = new InitRequest("many ranks", Devices.host(), settings);
    List<Bootstrap> bootstraps = LocalBootstrap.create(n, Duration.ofMinutes(5));
    ExecutorService threads = Executors.newFixedThreadPool(n);
    try {
      List<CompletableFuture<Found>> finding = new ArrayList<>();
      for (Bootstrap bootstrap : bootstraps) {
        finding.add(
            CompletableFuture.supplyAsync(
                () -> {
                  TopologyExchange machines =
                      TopologyExchange.of(request, peers, HostNics.UNKNOWN, bootstrap);
                  return new Found(
                      machines,
                      ChannelGraphs.of(request, machines, HostLayout.of(peers), bootstrap));
                },
                threads));
      }
      return finding.stream().map(CompletableFuture::join).toList();
    } finally {
      threads.shutdownNow();
      bootstraps.forEach(Bootstrap::close);
    }
  }

  @Test
  void ranksOfOneProcessMergeAndSearchOnce() {
    List<Found> all = exchange(96, "host");
    Found first = all.get(0);
    assertEquals(12, first.machines.hosts().size());
    for (Found each : all) {
      assertSame(first.machines, each.machines);
      assertSame(first.graphs.topology().orElseThrow(), each.graphs.topology().orElseThrow());
    }
    assertSame(
        first.machines.hosts().get(0).system(),
        first.machines.hosts().get(11).system(),
        "equal machines are read once");
    assertNotSame(first.machines, exchange(96, "other").get(0).machines);
  }

  @Test
  @EnabledIfSystemProperty(named = "nccl4j.measure", matches = "true")
  void timesOfManyRanks() {
    for (int round = 0; round < 3; round++) {
      for (int n : new int[] {64, 260, 1024}) {
        long begin = System.nanoTime();
        Duration used = processorTime();
        exchange(n, "round" + round + "host");
        System.out.printf(
            "%d ranks: %.2f s, of the processors %.2f s%n",
            n, (System.nanoTime() - begin) / 1e9, processorTime().minus(used).toMillis() / 1e3);
      }
    }
  }

  private static Duration processorTime() {
    return ProcessHandle.current().info().totalCpuDuration().orElseThrow();
  }
}
