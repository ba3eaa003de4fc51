package org.nccl4j.topo.report;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.nccl4j.topo.TestMachines;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.cluster.ClusterOptions;
import org.nccl4j.topo.report.HostDrawing.Box;
import org.nccl4j.topo.report.HostDrawing.Way;
import org.nccl4j.topo.system.Machine;
import org.nccl4j.topo.xml.TopologyXml;
import org.nccl4j.topo.xml.XmlElement;

/** Each link of a host's picture is in its list, and the other way round. */
class HostDrawingTest {
  private static Picture draw(Optional<Machine> machine) {
    return HostDrawing.of(
        new HostDrawing.Host(
            "host <h>",
            machine,
            Map.of(),
            List.of(
                new Box("process/1", List.of("rank 0", "process 1")),
                new Box("process/2", List.of("rank 1", "process 2"))),
            List.of("process/1"),
            List.of(new Box("nic/eth9", List.of("eth9", "place not known"))),
            List.of(new Way("memory", "nic/eth9"), new Way("process/2", "nic/eth9"))));
  }

  private static List<String> linkIds(String svg) {
    return Pattern.compile("<g class=\"link[^\"]*\" data-id=\"([^\"]*)\">")
        .matcher(svg)
        .results()
        .map(match -> match.group(1))
        .toList();
  }

  private static void check(Picture picture) {
    assertEquals(
        picture.edges().stream().map(Picture.Edge::id).sorted().toList(),
        linkIds(picture.svg()).stream().sorted().toList());
    assertEquals(picture.edges().size(), linkIds(picture.svg()).stream().distinct().count());
    assertTrue(!picture.svg().contains("style="), "a page's policy forbids styles in attributes");
    assertTrue(picture.svg().contains("<title>host &lt;h&gt;</title>"), picture.svg());
  }

  @ParameterizedTest
  @MethodSource("org.nccl4j.topo.TestMachines#names")
  void machinesHaveTheirLinks(String name) {
    Machine machine = Cluster.routes(TestMachines.read(name), ClusterOptions.DEFAULT).machine();
    Picture picture = draw(Optional.of(machine));
    check(picture);
    List<String> ids = linkIds(picture.svg());
    machine
        .cpus()
        .forEach(cpu -> assertTrue(ids.contains(Picture.id(cpu.toString(), "memory")), name));
  }

  @Test
  void aHostWithoutAMachineHasItsProcessesAndCards() {
    Picture picture = draw(Optional.empty());
    check(picture);
    assertEquals(
        List.of("memory|process/1", "network|nic/eth9", "memory|nic/eth9", "nic/eth9|process/2"),
        picture.edges().stream().map(Picture.Edge::id).toList());
  }

  @Test
  void aMachineMayHaveNoGpus() {
    XmlElement system =
        TopologyXml.parseSystem(
            "plain.xml",
            "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\"><nic>"
                + "<net name=\"eth0\" dev=\"0\" speed=\"10000\" port=\"0\" guid=\"0x1\"/></nic></cpu>"
                + "</system>");
    Machine machine = Cluster.routesOfHost(system, ClusterOptions.DEFAULT).machine();
    Picture picture = draw(Optional.of(machine));
    check(picture);
    assertTrue(linkIds(picture.svg()).contains("CPU/0-0|NIC/0-0"), picture.svg());
    assertThrows(TopologyException.class, () -> Cluster.routes(system, ClusterOptions.DEFAULT));
    XmlElement empty = TopologyXml.parseSystem("empty.xml", "<system version=\"1\"/>");
    TopologyException e =
        assertThrows(
            TopologyException.class, () -> Cluster.routesOfHost(empty, ClusterOptions.DEFAULT));
    assertTrue(e.getMessage().contains("neither a GPU nor a network"), e.getMessage());
  }
}
