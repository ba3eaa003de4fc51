package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;

/**
 * Driver calls of communicators of several machines for NVLSTree, in a process of its own with the
 * recording fake in the driver's place: four ranks on two machines, on two fake GPUs.
 */
@Timeout(600)
class DriverTreeTest {
  private static final String[][] DONE_AND_UNDONE = {
    {"cuMemMap", "cuMemUnmap"},
    {"cuMemAddressReserve", "cuMemAddressFree"},
    {"bound", "unbound"},
  };

  private static final String NETWORK =
      """
      <pci busid="0000:40:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16"><nic>
      <net name="lo" dev="0" speed="400000" port="1" guid="0x1" maxconn="65536" gdr="0"/>
      </nic></pci>
      """;

  @TempDir static Path folder;
  private static FakeGpuProcess program;

  @BeforeAll
  static void buildTheFake() throws Exception {
    program = FakeGpuProcess.in(folder);
  }

  private static Ran run(String hosts, String... settings) throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    Map<String, String> all = new HashMap<>(Map.of("NCCL_ALGO", "NVLSTree,Ring"));
    for (int s = 0; s < settings.length; s += 2) {
      all.put(settings[s], settings[s + 1]);
    }
    Ran ran = program.run(all, FakeTreeRanks.class, hosts);
    assertEquals(0, ran.count("misuse"), ran.calls().toString());
    for (String[] pair : DONE_AND_UNDONE) {
      assertEquals(ran.count(pair[0]), ran.count(pair[1]), pair[0]);
    }
    return ran;
  }

  private static long multicast(Ran ran) {
    return ran.calls().stream().filter(call -> call.contains("Multicast")).count();
  }

  private static List<String> launches(Ran ran) {
    return ran.calls().stream()
        .filter(call -> call.startsWith("cuLaunchKernelEx("))
        .map(call -> call.substring(17, call.indexOf(",0,")))
        .toList();
  }

  /** By the switch each machine has an object of its own. */
  @Test
  void everyMachineMakesAnObjectOfItsRanksAndUndoesIt() throws Exception {
    Ran ran = run("aabb", "NCCL_ALGO", "NVLSTree");
    assertTrue(ran.output().contains("chosen: NVLSTree Simple"), ran.output());
    assertTrue(ran.output().contains("NVLS by the switch, predicted"), ran.output());
    assertTrue(ran.output().contains("2=NET"), ran.output());
    assertEquals(0, ran.warnings(), ran.output());
    assertEquals(2, ran.count("cuMulticastCreate"));
    assertEquals(4, ran.count("cuMulticastAddDevice"));
    assertEquals(4, ran.count("cuMulticastBindMem"));
    assertEquals(4, ran.count("cuMulticastUnbind"));
    assertTrue(ran.calls().contains("cuModuleGetFunction(nccl4j_nvls_tree_driver)"));
    assertEquals(List.of("2,1,1,512,1,1", "2,1,1,512,1,1"), launches(ran).subList(0, 2));
  }

  /** As many blocks as proxies carry channels, and buffers for no more. */
  @ParameterizedTest
  @CsvSource({"aabb, 1, 2", "aabb, 8, 2", "ab, 3, 1", "aab, 2, 1"})
  void theEmulationHasTheChannelsThatAreCarried(String hosts, int channels, int heads)
      throws Exception {
    Ran ran =
        run(
            hosts,
            "NCCL4J_NVLS_MODE",
            "emulated",
            "NCCL_NVLS_ENABLE",
            "0",
            "NCCL_ALGO",
            "NVLSTree",
            "NCCL_NCHANNELS_PER_NET_PEER",
            Integer.toString(channels));
    assertEquals(0, multicast(ran));
    assertEquals(0, ran.warnings(), ran.output());
    assertTrue(ran.calls().contains("cuModuleGetFunction(nccl4j_nvls_tree_emulated)"));
    assertEquals(
        hosts.length(),
        launches(ran).stream().filter(launch -> launch.equals(channels + ",1,1,512,1,1")).count(),
        launches(ran).toString());
    long slots = 2L * heads * channels * (8 * (32 << 10) + 4096);
    long granules = (slots + (2 << 20) - 1) / (2 << 20) * (2 << 20);
    assertTrue(
        ran.calls().stream().anyMatch(call -> call.startsWith("cuMemCreate(" + granules)),
        granules + " bytes: " + ran.calls());
  }

  @Test
  void whereItIsForbiddenNoMulticastFunctionIsCalled() throws Exception {
    Ran ran = run("aabb", "NCCL_NVLS_ENABLE", "0");
    assertTrue(ran.output().contains("chosen: Ring"), ran.output());
    assertTrue(ran.output().contains("NCCL_NVLS_ENABLE=0 forbids"), ran.output());
    assertEquals(1, ran.warnings(), ran.output());
    assertEquals(0, multicast(ran));
  }

  /** Machines of GPUs with an NVSwitch that combines data. */
  private static Ran unasked(String hosts, String... settings) throws Exception {
    Map<String, String> all =
        new HashMap<>(DriverMulticastTest.switched(folder, 3, /* hasSwitch= */ true));
    Path machine = Path.of(all.get("NCCL_TOPO_FILE"));
    Files.writeString(machine, Files.readString(machine).replace("</cpu>", NETWORK + "</cpu>"));
    all.put("FAKECUDA_NAME", "Fake GPU");
    all.put("NCCL_ALGO", "");
    all.put("NCCL_DEBUG", "INFO");
    all.put("JAVA_TOOL_OPTIONS", "-Dnccl4j.clique=true");
    for (int s = 0; s < settings.length; s += 2) {
      all.put(settings[s], settings[s + 1]);
    }
    List<String> list = new ArrayList<>();
    all.forEach((name, value) -> list.addAll(List.of(name, value)));
    return run(hosts, list.toArray(String[]::new));
  }

  /** By default as NCCL does: made by the first operation that it is the cheapest for. */
  @Test
  void severalMachinesUseItUnasked() throws Exception {
    Path times = folder.resolve("times");
    Files.write(
        times, List.of("device Fake GPU", "2x3/Socket AllReduce NVLSTree Simple 4194304:1"));
    Ran ran = unasked("aaabbb", "NCCL4J_COSTS_FILE", times.toString());
    assertTrue(ran.output().contains("NVLink SHARP is used, because"), ran.output());
    assertEquals(0, ran.warnings(), ran.output());
    assertEquals(2, ran.count("cuMulticastCreate"));
    assertEquals(6, ran.count("cuMulticastBindMem"));
    assertTrue(ran.calls().contains("cuModuleGetFunction(nccl4j_nvls_tree_driver)"));
  }

  /** Two ranks of a machine, another algorithm, and the user's word against it. */
  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "aaabb | NCCL_NVLS_ENABLE=2 | there are fewer than 3 ranks on a machine",
        "aaabbb | NCCL_ALGO=Ring | NCCL_ALGO leaves NVLS out",
        "aaabbb | NCCL_NVLS_ENABLE=0 | NCCL_NVLS_ENABLE=0 forbids",
      })
  void severalMachinesDoWithout(String hosts, String setting, String reason) throws Exception {
    Ran ran = unasked(hosts, setting.split("="));
    assertTrue(ran.output().contains("NVLink SHARP is not used, because"), ran.output());
    assertTrue(ran.output().contains(reason), ran.output());
    assertEquals(0, ran.warnings(), ran.output());
    assertEquals(0, multicast(ran));
  }

  /** Where one machine's driver refuses, no machine has it, and one warning says why. */
  @ParameterizedTest
  @CsvSource({"cuMulticastCreate", "cuMulticastAddDevice", "cuMulticastBindMem"})
  void aRefusalIsOneWarningAndNoTree(String call) throws Exception {
    Ran ran = run("aabb", "FAKECUDA_FAIL", call + ":2");
    assertTrue(ran.output().contains("chosen: Ring"), ran.output());
    assertEquals(1, ran.warnings(), ran.output());
    assertTrue(ran.output().contains(call), ran.output());
  }
}
