package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.UniqueId;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;
import org.nccl4j.it.nvls.FakeGpuProcess.Running;

/**
 * Ranks on GPUs of several hosts of one NVLink clique: processes that say they are on different
 * hosts, on the fake driver with fabric handles, and a management library that knows the fabric.
 */
@Timeout(600)
class CliqueTest {
  private static final String[][] DONE_AND_UNDONE = {
    {"cuMemMap", "cuMemUnmap"},
    {"cuMemAddressReserve", "cuMemAddressFree"},
    {"cuMemHostRegister_v2", "cuMemHostUnregister"},
  };

  @TempDir static Path folder;
  private static FakeGpuProcess program;

  @BeforeAll
  static void buildTheFakes() throws Exception {
    program = FakeGpuProcess.in(folder).withNvml();
  }

  /**
   * The ranks of a process.
   *
   * @param environment over that of a host in a clique
   * @param settings of each communicator, in the order in which they are made
   */
  private record Host(
      String host,
      int ranks,
      int device,
      Map<String, String> environment,
      List<String> settings,
      boolean contained) {
    Host(String host, int ranks, int device, Map<String, String> more, List<String> settings) {
      this(host, ranks, device, more, settings, false);
    }

    Map<String, String> variables() {
      Map<String, String> all = new HashMap<>();
      all.put("NCCL_HOSTID", "host-" + host);
      all.put("NCCL_SOCKET_IFNAME", "lo");
      all.put("NCCL_DEBUG", "INFO");
      all.put("FAKE_NVML", "two");
      all.put("FAKE_FABRIC", "3:0:ab:7:rack1");
      all.put("FAKECUDA_FABRIC", "yes");
      all.put("JAVA_TOOL_OPTIONS", "-Dnccl4j.windows=true");
      all.putAll(environment);
      return all;
    }

    Host with(String... variables) {
      Map<String, String> more = new HashMap<>();
      for (int i = 0; i < variables.length; i += 2) {
        more.put(variables[i], variables[i + 1]);
      }
      return new Host(host, ranks, device, more, settings, contained);
    }

    /** In a container that shares no memory with others of its host. */
    Host inContainer() {
      return new Host(host, ranks, device, environment, settings, true);
    }
  }

  private static Host host(String host, int device, String... settings) {
    return new Host(
        host, 1, device, Map.of(), settings.length == 0 ? List.of("") : List.of(settings));
  }

  private static List<Ran> run(Host... hosts) throws Exception {
    List<String> ids = new ArrayList<>();
    hosts[0].settings.forEach(each -> ids.add(UniqueId.create().toString()));
    int nRanks = Stream.of(hosts).mapToInt(Host::ranks).sum();
    List<Running> running = new ArrayList<>();
    int first = 0;
    for (Host host : hosts) {
      List<String> arguments = new ArrayList<>();
      for (int number : new int[] {nRanks, first, host.ranks, host.device}) {
        arguments.add(Integer.toString(number));
      }
      for (int each = 0; each < ids.size(); each++) {
        arguments.add(ids.get(each) + ";" + host.settings.get(each));
      }
      String[] all = arguments.toArray(String[]::new);
      running.add(
          host.contained
              ? program.startContained(host.variables(), CliqueRank.class, all)
              : program.start(host.variables(), CliqueRank.class, all));
      first += host.ranks;
    }
    List<Ran> all = new ArrayList<>();
    for (Running process : running) {
      all.add(process.end());
    }
    for (Ran ran : all) {
      assertEquals(0, ran.status(), ran.output());
      assertEquals(List.of(), ran.calls().stream().filter(c -> c.contains("misuse")).toList());
      for (String[] pair : DONE_AND_UNDONE) {
        assertEquals(ran.count(pair[0]), ran.count(pair[1]), pair[0]);
      }
    }
    return all;
  }

  /** A process's line on one of its communicators. */
  private static String of(Ran ran, int communicator) {
    String output = ran.output() + "\ncommunicator ";
    int from = output.indexOf("communicator " + communicator + "\n");
    assertTrue(from >= 0, output);
    return output.substring(from, output.indexOf("\ncommunicator ", from));
  }

  private static void assertContains(String output, String text) {
    assertTrue(output.contains(text), output);
  }

  private static void assertWarnings(int expected, String output) {
    long warnings = output.lines().filter(line -> line.startsWith("WARNING: ")).count();
    assertEquals(expected, warnings, output);
  }

  private static long fabricImports(Ran ran) {
    return ran.calls().stream()
        .filter(call -> call.startsWith("cuMemImportFromShareableHandle(0,8)"))
        .count();
  }

  @Test
  void ranksOfOneCliqueStoreIntoEachOthersMemoryFromHostToHost() throws Exception {
    for (Ran ran : run(host("a", 0), host("b", 0))) {
      assertWarnings(0, ran.output());
      assertContains(ran.output(), "=P2P}");
      assertContains(ran.output(), "same NVLink clique, by fabric handle");
      assertContains(ran.output(), "clique %s.7 of 2 ranks on 2 hosts".formatted("ab".repeat(16)));
      assertContains(ran.output(), "rings by the search of the topology");
      assertContains(ran.output(), "window of 2 ranks");
      assertContains(ran.output(), "early memory taken");
      assertEquals(0, ran.count("cuMemHostRegister_v2"), "nothing goes through the host");
      assertEquals(5, fabricImports(ran), "tried, arena, the windows' space, two windows");
      assertTrue(ran.calls().stream().noneMatch(call -> call.matches("cuMemImport\\w+\\(.*,1\\)")));
    }
  }

  /** Two GPUs of one host and two of another, with the same bus addresses. */
  @Test
  void fourRanksOnTwoHostsAreOneNode() throws Exception {
    Host first = new Host("a", 2, 0, Map.of(), List.of(""));
    for (Ran ran : run(first, new Host("b", 2, 0, Map.of(), List.of("")))) {
      assertWarnings(0, ran.output());
      assertFalse(ran.output().contains("=NET"), ran.output());
      assertContains(ran.output(), "of 4 ranks on 2 hosts");
      assertContains(ran.output(), "window of 4 ranks");
    }
  }

  @Test
  void settingsSayWhoIsTogether() throws Exception {
    List<Ran> all =
        run(
            host(
                "a",
                0,
                "NCCL_MNNVL_CLIQUE_ID=3",
                "",
                "NCCL_MNNVL_ENABLE=1",
                "NCCL_MNNVL_CLIQUE_ID=-2;NCCL4J_NVLS_MODE=emulated"),
            host(
                "b",
                0,
                "NCCL_MNNVL_CLIQUE_ID=4",
                "NCCL_MNNVL_ENABLE=0",
                "NCCL_P2P_DISABLE=1",
                "NCCL_MNNVL_CLIQUE_ID=-2;NCCL4J_NVLS_MODE=emulated"));
    for (Ran ran : all) {
      assertContains(of(ran, 0), "no clique has ranks of two hosts");
      assertContains(of(ran, 0), "=NET}");
      assertContains(of(ran, 1), "=NET}");
      assertContains(of(ran, 2), "NCCL_MNNVL_ENABLE=1 demands: rank 1: NCCL_P2P_DISABLE is set");
      assertContains(of(ran, 3), "clique %s.chassis rack1 of 2".formatted("ab".repeat(16)));
      assertContains(of(ran, 3), "window of 2 ranks");
    }
    assertContains(
        of(all.get(0), 3), "the emulation of multicast objects is not shared between hosts");
    assertWarnings(1, all.get(0).output());
    assertWarnings(0, all.get(1).output());
  }

  private static Map<String, String> switchOfTwoHosts() {
    return host("", 0)
        .with("NCCL4J_NVLS_MODE", "hardware", "JAVA_TOOL_OPTIONS", "-Dnccl4j.clique=true")
        .variables();
  }

  /** Two hosts, played by one process, have one multicast object, by its fabric handle. */
  @Test
  void aMulticastObjectIsOfAllHostsOfTheClique() throws Exception {
    Ran ran = program.run(switchOfTwoHosts(), FakeTreeRanks.class, "ab");
    assertContains(ran.output(), "of 2 ranks on 2 hosts");
    assertContains(ran.output(), "NVLink SHARP is used, because all ranks have it: by the switch");
    assertWarnings(0, ran.output());
    assertEquals(1, ran.count("cuMulticastCreate"));
    assertTrue(
        ran.calls().stream().anyMatch(call -> call.matches("cuMulticastCreate\\(2,\\d+,8,0\\)")),
        ran.calls().toString());
    assertEquals(2, ran.count("bound"));
    assertEquals(2, ran.count("unbound"));
    assertEquals(0, ran.count("misuse"), ran.calls().toString());
  }

  /** Without an IMEX channel, say: no rank has NVLS, with one warning. */
  @Test
  void aMulticastObjectThatADriverRefusesIsOneWarning() throws Exception {
    Map<String, String> refused = new HashMap<>(switchOfTwoHosts());
    refused.put("FAKECUDA_FAIL", "cuMulticastCreate:801");
    Ran ran = program.run(refused, FakeTreeRanks.class, "ab");
    assertContains(
        ran.output(),
        "rank 0 cannot make its part of a multicast object: cuMulticastCreate for 2 devices");
    assertWarnings(1, ran.output());
    assertEquals(0, ran.count("bound"));
    assertEquals(0, ran.count("misuse"), ran.calls().toString());
  }

  /** As on a machine whose switches end at it. */
  @Test
  void withoutAClustersNumberRanksGoOverTheNetworkAndSayWhy() throws Exception {
    String number = "NCCL_MNNVL_UUID=0x5";
    List<Ran> all =
        run(
            host("a", 0, "", number).with("FAKE_FABRIC", "3:0:0:0:r"),
            host("b", 0, "", number).with("FAKE_FABRIC", "3:0:0:0:r"));
    for (Ran ran : all) {
      assertContains(of(ran, 0), "rank 0: its NVLink fabric ends at its machine");
      assertContains(of(ran, 0), "=NET}");
      assertContains(of(ran, 1), "clique 5.0 of 2 ranks");
      assertContains(of(ran, 1), "window of 2 ranks");
      assertContains(of(ran, 1), "early memory refused: ");
      assertContains(of(ran, 1), "has no fabric handle, which ranks of other hosts need to map it");
      assertWarnings(0, ran.output());
    }
  }

  /** Without an IMEX channel. */
  @Test
  void aDriverThatRefusesLeavesTheNetworkWithOneWarning() throws Exception {
    List<Ran> all =
        run(
            host("a", 0, "", "NCCL_MNNVL_ENABLE=1"),
            host("b", 0, "", "NCCL_MNNVL_ENABLE=1").with("FAKECUDA_FABRIC", "refused"));
    for (Ran ran : all) {
      assertContains(of(ran, 0), "=NET}");
      assertContains(of(ran, 0), "rank 1: cuMemCreate of 2097152 bytes with a fabric handle");
      assertContains(of(ran, 1), "NCCL_MNNVL_ENABLE=1 demands: rank 1: cuMemCreate");
    }
    assertContains(of(all.get(0), 0), "nvidia-imex-ctl -N");
    assertWarnings(1, all.get(0).output());
    assertWarnings(0, all.get(1).output());
    assertContains(all.get(1).output(), "shared only within its host, by file descriptors");
  }

  /** Sharing passes its trial and fails for the arena; then the trial fails too. */
  @Test
  void aFailureInTheMiddleTakesTheNetwork() throws Exception {
    List<Ran> all =
        run(host("a", 0, "", ""), host("b", 0, "", "").with("FAKECUDA_FABRIC_IMPORTS", "1"));
    for (Ran ran : all) {
      assertContains(of(ran, 0), "rank 0's memory cannot be mapped by its fabric handle");
      assertContains(of(ran, 0), "=NET}");
      assertContains(of(ran, 1), "rank 1: memory of rank 0: cuMemImportFromShareableHandle");
      assertContains(of(ran, 1), "=NET}");
    }
    assertWarnings(2, all.get(0).output());
  }

  @Test
  void aWindowThatOneRankCannotMapIsAnErrorOfBothAndNothingIsLeft() throws Exception {
    for (Ran ran : run(host("a", 0), host("b", 0).with("FAKECUDA_FABRIC_IMPORTS", "2"))) {
      assertContains(ran.output(), "error ");
      assertContains(ran.output(), "cuMemImportFromShareableHandle of a fabric handle");
    }
  }

  @Test
  void dataThatArriveChangedLeaveTheNetwork() throws Exception {
    List<Ran> all = run(host("a", 0), host("b", 0).with("FAKECUDA_CORRUPT", "1"));
    all.forEach(ran -> assertContains(ran.output(), "=NET}"));
    assertContains(all.get(0).output(), "Check the NVLink fabric and the IMEX daemons");
    assertWarnings(1, all.get(0).output());
  }

  /** In the fabric of a rack, and in one that ends at the machine. */
  @ParameterizedTest
  @CsvSource({"3:0:ab:7:rack1, ababababab, 5", "3:0:0:0:r, clique machine host-a.0 of 2, 4"})
  void containersOfAHostThatShareNoMemoryUseFabricHandles(String fabric, String clique, int imports)
      throws Exception {
    Host first = host("a", 0).with("FAKE_FABRIC", fabric).inContainer();
    for (Ran ran : run(first, host("a", 1).with("FAKE_FABRIC", fabric).inContainer())) {
      assertWarnings(0, ran.output());
      assertContains(ran.output(), "=P2P}");
      assertContains(ran.output(), "same machine, by fabric handle");
      assertContains(ran.output(), clique);
      assertContains(ran.output(), "of its machine, and reaches their GPUs by NVLink's fabric");
      assertContains(ran.output(), "window of 2 ranks");
      // Memory that was made before has no handle where the fabric ends at the machine.
      assertEquals(imports, fabricImports(ran), "tried, arena, the windows' space, one or two");
      assertTrue(ran.calls().stream().noneMatch(call -> call.matches("cuMemImport\\w+\\(.*,1\\)")));
    }
  }

  /** Without a fabric: they are two nodes for the network, the graphs and the costs. */
  @Test
  void containersOfAHostThatShareNoMemoryAreTwoHosts() throws Exception {
    String[] none = {"NCCL_MNNVL_ENABLE", "0"};
    List<Ran> pods =
        run(host("a", 0).with(none).inContainer(), host("a", 1).with(none).inContainer());
    List<Ran> hosts = run(host("a", 0).with(none), host("b", 1).with(none));
    for (int rank = 0; rank < 2; rank++) {
      String output = pods.get(rank).output();
      assertWarnings(0, output);
      assertContains(output, "=NET}");
      assertContains(
          output,
          "shares no memory of the host with ranks [%d] of its machine, and a network connects"
                  .formatted(1 - rank)
              + " them: they are in other containers");
      assertContains(output, "2 GPUs on 2 hosts over a network");
      assertEquals(explained(hosts.get(rank)), explained(pods.get(rank)));
    }
  }

  /** The explanation of a rank's choices and their costs. */
  private static List<String> explained(Ran ran) {
    return ran.output()
        .lines()
        .dropWhile(line -> !line.startsWith("transports "))
        .filter(line -> !line.contains("with ranks"))
        .toList();
  }

  /** Without an IMEX channel in a container: the network, as without a fabric. */
  @Test
  void containersWithoutFabricHandlesOfTheirMachineUseTheNetwork() throws Exception {
    String[] local = {"FAKE_FABRIC", "3:0:0:0:r", "FAKECUDA_FABRIC", "refused"};
    Host first = host("a", 0, "", "NCCL_MNNVL_ENABLE=1").with(local).inContainer();
    Host second = host("a", 1, "", "NCCL_MNNVL_ENABLE=1").with(local).inContainer();
    for (Ran ran : run(first, second)) {
      assertContains(of(ran, 0), "=NET}");
      assertContains(of(ran, 0), "does not use multi-node NVLink: rank 0: cuMemCreate of 2097152");
      assertContains(of(ran, 1), "NCCL_MNNVL_ENABLE=1 demands: rank 0: cuMemCreate");
      assertWarnings(0, ran.output());
    }
  }

  /** Demanded, it is used between processes of one host too. */
  @Test
  void processesOfOneHostCanUseFabricHandles() throws Exception {
    String demand = "NCCL_MNNVL_ENABLE=1";
    for (Ran ran : run(host("a", 0, "", demand), host("a", 1, "", demand))) {
      assertContains(of(ran, 0), "same machine, by file descriptor");
      assertContains(of(ran, 1), "same machine, by fabric handle");
      assertContains(of(ran, 1), "window of 2 ranks");
      assertEquals(2, fabricImports(ran), "tried, and the arena; windows within a host do without");
      assertWarnings(0, ran.output());
    }
  }
}
