package org.nccl4j.it.top;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.it.top.Frame.LinkRates;
import org.nccl4j.it.top.Frame.RankRates;
import org.nccl4j.it.top.HostTraffic.LinkTraffic;
import org.nccl4j.it.topo.HostMachine;
import org.nccl4j.topo.path.Routes;

/** Traffic is counted on the links of the paths that it takes, and on no others. */
class TrafficMapTest {
  private static final String HOST = RankReport.HOST;

  @TempDir private Path directory;

  private static HostTraffic only(Optional<Routes> routes, RankRates... ranks) {
    List<HostTraffic> hosts = new TrafficMap(host -> routes).of(FrameSamples.frame(1, ranks));
    assertEquals(1, hosts.size());
    HostTraffic host = hosts.get(0);
    for (LinkTraffic link : host.links()) {
      assertTrue(host.svg().contains("data-id=\"" + link.id() + "\""), host.svg());
    }
    return host;
  }

  /** The links with traffic, each with what flows in the order of its id and back. */
  private static Map<String, List<Double>> busy(HostTraffic host) {
    return host.links().stream()
        .filter(link -> link.there() > 0 || link.back() > 0)
        .collect(Collectors.toMap(LinkTraffic::id, link -> List.of(link.there(), link.back())));
  }

  private static LinkRates sends(int peer, String via, double rate) {
    return new LinkRates(peer, "NET", via, 9, rate, 0);
  }

  private static LinkRates receives(int peer, String via, double rate) {
    return new LinkRates(peer, "NET", via, 0, 0, rate);
  }

  private static LinkRates shares(int peer, double rate) {
    return new LinkRates(peer, "SHM", "", 9, rate, 0);
  }

  @Test
  void processesExchangeDataThroughTheHostsMemory() {
    HostTraffic host =
        only(
            Optional.empty(),
            FrameSamples.rank(0, "h", HOST, shares(1, 2)),
            FrameSamples.rank(1, "h", HOST, shares(0, 0.5)));
    assertEquals(
        Map.of("memory|process/41", List.of(0.5, 2.0), "memory|process/42", List.of(2.0, 0.5)),
        busy(host));
    assertTrue(host.svg().contains(">rank 1</text>"), host.svg());
    assertTrue(host.svg().contains(">process 42</text>"), host.svg());
    assertEquals(
        List.of("the machine is not known; --machine h=FILE names its topology file"),
        host.notes());
    assertEquals(
        List.of(
            "rank 0 sends 2.00 GB/s to rank 1 by SHM", "rank 1 sends 0.500 GB/s to rank 0 by SHM"),
        host.links().get(0).flows());
  }

  /** Only the ends of the way to a card of an unknown machine are known. */
  @Test
  void aCardOfAnUnknownMachineHasAnUnknownWay() {
    HostTraffic host =
        only(
            Optional.empty(),
            FrameSamples.rank(
                0, "h", HOST, sends(1, "Socket/eth0", 1), receives(2, "Socket/eth0", 3)));
    assertEquals(
        Map.of(
            "memory|process/41", List.of(3.0, 1.0),
            "memory|nic/eth0", List.of(1.0, 3.0),
            "network|nic/eth0", List.of(3.0, 1.0)),
        busy(host));
    assertTrue(host.svg().contains("class=\"link unknown\" data-id=\"memory|nic/eth0\""));
  }

  /** A GPU's card is below its PCIe switch; the other GPU's way is its own. */
  @Test
  void gpusSendOverTheTopologysPath() {
    HostTraffic host =
        only(
            Optional.of(FrameSamples.machine("dgx-h100")),
            FrameSamples.rank(0, "h", "0000:12:00.0", sends(8, "IB/mlx5_0", 40)),
            FrameSamples.rank(1, "h", "0000:2a:00.0", receives(9, "IB/mlx5_1:1", 30)));
    assertEquals(
        Map.of(
            "DEV/0-12000|PCI/0-10000", List.of(40.0, 0.0),
            "NIC/0-15000|PCI/0-10000", List.of(0.0, 40.0),
            "NIC/0-15000|network", List.of(40.0, 0.0),
            "DEV/0-2a000|PCI/0-28000", List.of(0.0, 30.0),
            "NIC/0-2d000|PCI/0-28000", List.of(30.0, 0.0),
            "NIC/0-2d000|network", List.of(0.0, 30.0)),
        busy(host));
    assertTrue(host.svg().contains(">rank 1</text>"), host.svg());
    assertTrue(
        host.notes().get(0).startsWith("data that GPUs send each other"), host.notes()::toString);
  }

  private static LinkRates peer(int rank, double rate) {
    return new LinkRates(rank, "P2P", "", 9, rate, 0);
  }

  /** Over the switch, each GPU's NVLinks have what it sends to all others and gets from them. */
  @Test
  void gpusSendEachOtherOverNvlink() {
    HostTraffic host =
        only(
            Optional.of(FrameSamples.machine("dgx-h100")),
            FrameSamples.rank(0, "h", "0000:12:00.0", peer(1, 40), peer(2, 10)),
            FrameSamples.rank(1, "h", "0000:2a:00.0", peer(0, 30)),
            FrameSamples.rank(2, "h", "0000:42:00.0"));
    assertEquals(
        Map.of(
            "DEV/0-12000|NVS/0-0|NVL", List.of(50.0, 30.0),
            "DEV/0-2a000|NVS/0-0|NVL", List.of(30.0, 40.0),
            "DEV/0-42000|NVS/0-0|NVL", List.of(0.0, 10.0)),
        busy(host));
    assertEquals(
        List.of(
            "rank 0 sends 40.0 GB/s to rank 1 by P2P", "rank 1 sends 30.0 GB/s to rank 0 by P2P"),
        host.links().stream()
            .filter(link -> link.id().startsWith("DEV/0-2a000|NVS"))
            .flatMap(link -> link.flows().stream())
            .toList());
    assertEquals(List.of(), host.notes().stream().filter(note -> note.contains("way")).toList());
  }

  /** Over the NVLink between them, or over PCIe; ranks on one GPU use none. */
  @Test
  void gpusWithoutASwitchUseTheirOwnLinks() {
    HostTraffic nvlink =
        only(
            Optional.of(FrameSamples.machine("dgx1-v100")),
            FrameSamples.rank(0, "h", "0000:10:00.0", peer(1, 5), peer(2, 7)),
            FrameSamples.rank(1, "h", "0000:13:00.0"),
            FrameSamples.rank(2, "h", "0000:10:00.0"));
    assertEquals(Map.of("DEV/0-10000|DEV/0-13000|NVL", List.of(5.0, 0.0)), busy(nvlink));
    HostTraffic pcie =
        only(
            Optional.of(FrameSamples.machine("pcie-2-intel")),
            FrameSamples.rank(0, "h", "0000:12:00.0", peer(1, 5)),
            FrameSamples.rank(1, "h", "0000:1a:00.0"));
    assertTrue(busy(pcie).size() >= 2, busy(pcie)::toString);
    assertTrue(
        busy(pcie).keySet().stream().noneMatch(id -> id.endsWith("NVL")), busy(pcie)::toString);
  }

  @Test
  void dataThatTheSwitchCombinesAreOnTheLinkToIt() {
    HostTraffic host =
        only(
            Optional.of(FrameSamples.machine("dgx-h100")),
            FrameSamples.rank(0, "h", "0000:12:00.0", new LinkRates(-1, "NVLS", "", 9, 100, 90)));
    assertEquals(Map.of("DEV/0-12000|NVS/0-0|NVL", List.of(100.0, 90.0)), busy(host));
  }

  /** The rank uses the card itself, not through the GPU beside it. */
  @Test
  void aFarCardIsReachedByTheGpuItself() {
    HostTraffic host =
        only(
            Optional.of(FrameSamples.machine("hgx-h100-2nic")),
            FrameSamples.rank(1, "h", "0000:2a:00.0", sends(8, "IB/mlx5_0", 5)));
    assertEquals(
        Map.of(
            "DEV/0-2a000|PCI/0-28000", List.of(5.0, 0.0),
            "CPU/0-0|PCI/0-28000", List.of(0.0, 5.0),
            "CPU/0-0|PCI/0-10000", List.of(5.0, 0.0),
            "NIC/0-15000|PCI/0-10000", List.of(0.0, 5.0),
            "NIC/0-15000|network", List.of(5.0, 0.0)),
        busy(host));
  }

  /** From the memory to the CPU of the card, whatever the process's own is. */
  @Test
  void ranksOfTheHostReachACardOfAMachineWithoutGpus() throws Exception {
    Path file =
        Files.writeString(
            directory.resolve("host.xml"),
            """
            <system version="1"><cpu numaid="0" arch="x86_64" vendor="AuthenticAMD">
            <pci busid="0000:09:00.0" class="0x020000" link_speed="16.0 GT/s PCIe" link_width="16">
            <nic><net name="eth0" dev="0" speed="100000" port="0" guid="0x1"/></nic></pci>
            </cpu></system>
            """);
    HostTraffic host =
        only(
            Optional.of(HostMachine.of(file)),
            FrameSamples.rank(0, "h", HOST, sends(1, "Socket/eth0", 1)));
    assertEquals(
        Map.of(
            "memory|process/41", List.of(0.0, 1.0),
            "CPU/0-0|memory", List.of(0.0, 1.0),
            "CPU/0-0|NIC/0-9000", List.of(1.0, 0.0),
            "NIC/0-9000|network", List.of(1.0, 0.0)),
        busy(host));
    assertEquals(List.of(), host.notes());
    assertEquals(
        12.5,
        host.links().stream()
            .filter(link -> link.id().endsWith("|network"))
            .findFirst()
            .orElseThrow()
            .capacity());
  }

  @Test
  void whatTakesUnknownWaysIsNamed() {
    HostTraffic host =
        only(
            Optional.of(FrameSamples.machine("dgx-h100")),
            FrameSamples.rank(0, "h", "0000:12:00.0", shares(1, 2)),
            FrameSamples.rank(1, "h", "0000:ff:00.0", sends(2, "Socket/eth7", 1)),
            FrameSamples.rank(2, "h", HOST, new LinkRates(-1, "several", "", 9, 3, 0)));
    assertEquals(
        Map.of("nic/eth7|process/42", List.of(0.0, 1.0), "network|nic/eth7", List.of(0.0, 1.0)),
        busy(host));
    assertTrue(host.notes().contains("GPU 0000:ff:00.0 of rank 1 is not in the topology"));
    assertTrue(host.notes().contains("network card eth7 is not in the topology"));
    assertTrue(
        host.notes().contains("the way is not known: rank 0 sends 2.00 GB/s to rank 1 by SHM"));
    assertTrue(
        host.notes()
            .contains("the way is not known: rank 2 sends 3.00 GB/s to other ranks by several"),
        host.notes()::toString);
  }

  @Test
  void manyProcessesShareABox() {
    RankRates[] ranks =
        IntStream.range(0, 40)
            .mapToObj(rank -> FrameSamples.rank(rank, "h", HOST, shares((rank + 1) % 40, 1)))
            .toArray(RankRates[]::new);
    HostTraffic host = only(Optional.empty(), ranks);
    assertEquals(HostSites.MOST_PROCESSES + 1, busy(host).size());
    assertEquals(List.of(24.0, 24.0), busy(host).get("memory|process/others"));
    assertTrue(host.svg().contains(">ranks 16 to 39</text>"), host.svg());
  }

  @Test
  void aMachineOfManyHostsIsFoundOnceForEach() {
    int[] asked = new int[1];
    TrafficMap map =
        new TrafficMap(
            host -> {
              asked[0]++;
              return Optional.empty();
            });
    RankRates[] ranks =
        IntStream.range(0, 20)
            .mapToObj(rank -> FrameSamples.rank(rank, "h" + (10 + rank), HOST))
            .toArray(RankRates[]::new);
    map.of(FrameSamples.frame(1, ranks));
    List<HostTraffic> hosts = map.of(FrameSamples.frame(2, ranks));
    assertEquals(TrafficMap.MOST_HOSTS, hosts.size());
    assertEquals(TrafficMap.MOST_HOSTS, asked[0]);
    assertEquals("h10", hosts.get(0).host());
  }
}
