package org.nccl4j.api.init.topology;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.cluster.ClusterOptions;
import org.nccl4j.topo.cluster.CommTopology;
import org.nccl4j.topo.path.PeerStatus;
import org.nccl4j.topo.xml.TopologyXml;

class TopologyCacheTest {
  private final AtomicInteger searches = new AtomicInteger();

  /** Two GPUs, whose bus numbers tell machines apart. */
  private static TopologyExchange machine(int number, int... ranks) {
    StringBuilder text = new StringBuilder("<system version=\"1\">\n");
    text.append("<cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\"");
    text.append(" modelid=\"143\">\n");
    for (int gpu = 0; gpu < 2; gpu++) {
      text.append("<pci busid=\"0000:%x%d:00.0\" class=\"0x030200\"".formatted(number, gpu));
      text.append(" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">");
      text.append("<gpu dev=\"%d\" sm=\"90\" rank=\"%d\" gdr=\"1\"/></pci>".formatted(gpu, gpu));
    }
    text.append("</cpu></system>\n");
    return new TopologyExchange(
        List.of(new CommTopology.Host(TopologyXml.parseSystem("test", text.toString()), ranks)),
        true);
  }

  private CommTopology of(TopologyExchange survey, Map<String, String> settings) {
    return TopologyCache.of(
        survey,
        settings,
        () -> {
          searches.incrementAndGet();
          return CommTopology.of(
              survey.hosts(),
              new ClusterOptions(TopoSettings.defaults(), PeerStatus.ALLOWED, false));
        });
  }

  @Test
  void equalMachinesAndSettingsAreSearchedOnce() throws Exception {
    ExecutorService ranks = Executors.newFixedThreadPool(4);
    try {
      List<Future<CommTopology>> found = new ArrayList<>();
      for (int rank = 0; rank < 4; rank++) {
        found.add(ranks.submit(() -> of(machine(1, 0, 1), Map.of())));
      }
      for (Future<CommTopology> each : found) {
        assertSame(found.get(0).get(), each.get());
      }
      assertEquals(1, searches.get());
    } finally {
      ranks.shutdownNow();
    }
  }

  @Test
  void otherMachinesOrSettingsAreSearchedAgain() {
    CommTopology first = of(machine(2, 0, 1), Map.of());
    assertNotSame(first, of(machine(3, 0, 1), Map.of()));
    assertNotSame(first, of(machine(2, 0, 1), Map.of("NCCL_CROSS_NIC", "1")));
    assertSame(first, of(machine(2, 0, 1), Map.of()));
    assertEquals(3, searches.get());
  }

  @Test
  void onlyTheLastFewAreKept() {
    CommTopology first = of(machine(4, 0, 1), Map.of());
    for (int other = 5; other < 9; other++) {
      of(machine(other, 0, 1), Map.of());
    }
    assertNotSame(first, of(machine(4, 0, 1), Map.of()));
  }

  @Test
  void whatAFileGaveIsReadAgain() {
    Map<String, String> file = Map.of("NCCL_GRAPH_FILE", "graphs.xml");
    of(machine(9, 0, 1), file);
    of(machine(9, 0, 1), file);
    assertEquals(2, searches.get());
  }

  @Test
  void aSearchThatFailsIsTriedAgain() {
    TopologyExchange survey = machine(10, 0, 1);
    assertThrows(
        IllegalStateException.class,
        () ->
            TopologyCache.of(
                survey,
                Map.of(),
                () -> {
                  throw new IllegalStateException("no machine");
                }));
    of(survey, Map.of());
    assertEquals(1, searches.get());
  }
}
