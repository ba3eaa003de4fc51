package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

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
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;
import org.nccl4j.it.nvls.FakeGpuProcess.Running;

/**
 * Memory sharing of GPUs when the driver, the machine or the user refuses one way after the other:
 * the way that is used instead, and the log.
 */
@Timeout(600)
class MemorySharingTest {
  @TempDir static Path folder;
  @TempDir static Path other;
  private static FakeGpuProcess program;

  @BeforeAll
  static void buildTheFake() throws Exception {
    program = FakeGpuProcess.in(folder);
  }

  /** Two ranks as threads. */
  private static Ran threads(Map<String, String> settings) throws Exception {
    Ran ran = program.run(settings, FakeGpuRanks.class);
    assertSound(ran);
    return ran;
  }

  private static void assertSound(Ran ran) {
    assertEquals(0, ran.calls().stream().filter(call -> call.contains("misuse")).count());
    for (String[] pair :
        new String[][] {
          {"cuMemAlloc_v2", "cuMemFree_v2"},
          {"cuMemAddressReserve", "cuMemAddressFree"},
          {"cuMemMap", "cuMemUnmap"},
          {"cuMemHostRegister_v2", "cuMemHostUnregister"},
          {"cuIpcOpenMemHandle_v2", "cuIpcCloseMemHandle"},
        }) {
      assertEquals(ran.count(pair[0]), ran.count(pair[1]), pair[0] + " " + ran.calls());
    }
  }

  /** Two ranks as processes. */
  private static List<Ran> processes(Map<String, String> settings) throws Exception {
    return processes(settings, settings);
  }

  private static List<Ran> processes(Map<String, String> first, Map<String, String> second)
      throws Exception {
    String id = UniqueId.create().toString();
    List<Running> running = new ArrayList<>();
    for (int rank = 0; rank < 2; rank++) {
      Map<String, String> settings = rank == 0 ? first : second;
      running.add(program.start(settings, FakeGpuRank.class, "2", Integer.toString(rank), id));
    }
    List<Ran> ran = new ArrayList<>();
    for (Running process : running) {
      ran.add(process.end());
    }
    return ran;
  }

  /** The driver wants other processes to close what they opened before its owner frees it. */
  @Test
  void memoryIsFreedWhenAllProcessesHaveClosedIt() throws Exception {
    String late = "-Dnccl4j.late=" + folder.resolve("closing");
    for (Ran ran : processes(Map.of("NCCL_CUMEM_ENABLE", "0", "JAVA_TOOL_OPTIONS", late))) {
      assertEquals(0, ran.status(), ran.output());
      assertEquals(1, ran.count("cuIpcOpenMemHandle_v2"), ran.output());
      assertEquals(1, ran.count("cuIpcCloseMemHandle"), ran.output());
      assertEquals(0, ran.calls().stream().filter(call -> call.contains("misuse")).count());
    }
  }

  /** In one rank's process alone: the other would wait for what does not come. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "cuMemExportToShareableHandle:801:3",
        "cuMemGetAllocationPropertiesFromHandle:801:1",
        "cuMemImportFromShareableHandle:801:2"
      })
  void aWindowThatOneRankCannotShareIsToldToAllAtOnce(String failing) throws Exception {
    Map<String, String> two = Map.of("JAVA_TOOL_OPTIONS", "-Dnccl4j.windows=2");
    Map<String, String> fails = new HashMap<>(two);
    fails.put("FAKECUDA_FAIL", failing);
    String call = failing.substring(0, failing.indexOf(':'));
    for (Ran ran : processes(two, fails)) {
      assertEquals(0, ran.status(), ran.output());
      List<String> told = ran.output().lines().filter(line -> line.startsWith("window: ")).toList();
      assertEquals(2, told.size(), ran.output());
      for (String problem : told) {
        assertTrue(problem.contains(call + " for CUDA device 1"), ran.output());
      }
      assertEquals(ran.count("cuMemMap"), ran.count("cuMemUnmap"), ran.calls().toString());
      assertEquals(ran.count("cuMemAddressReserve"), ran.count("cuMemAddressFree"));
      assertEquals(0, ran.calls().stream().filter(c -> c.contains("misuse")).count());
    }
  }

  private static void assertContains(Ran ran, String text) {
    assertTrue(ran.output().contains(text), ran.output());
  }

  @Test
  void threadsMapEachOthersMemory() throws Exception {
    Ran ran = threads(Map.of());
    assertContains(ran, "transports {1=P2P}");
    assertContains(ran, "chosen with windows");
    assertEquals(0, ran.count("cuCtxEnablePeerAccess"));
    assertEquals(0, ran.warnings(), ran.output());
  }

  @Test
  void withoutDescriptorsThreadsEnablePeerAccess() throws Exception {
    Ran ran = threads(Map.of("NCCL_CUMEM_ENABLE", "0"));
    assertContains(ran, "transports {1=P2P}");
    assertEquals(2, ran.count("cuCtxEnablePeerAccess"));
    assertEquals(0, ran.count("cuMemCreate"));
    assertEquals(0, ran.warnings(), "it was asked for: " + ran.output());
  }

  /** By the driver's answer or by the device's attributes. */
  @ParameterizedTest
  @CsvSource({
    "FAKECUDA_FAIL, cuMemCreate:801, cuMemCreate of",
    "FAKECUDA_LACKS, 102, has no virtual memory management",
    "FAKECUDA_LACKS, 103, cannot export memory as file descriptors"
  })
  void aDriverThatCannotShareByDescriptorIsNamed(String how, String what, String reason)
      throws Exception {
    Ran ran = threads(Map.of(how, what));
    assertContains(ran, "transports {1=P2P}");
    assertContains(ran, "rank 0 shares its GPU's memory by peer access, not by file descriptors");
    assertContains(ran, reason);
    assertEquals(2, ran.warnings(), "one of each rank: " + ran.output());
    assertEquals(2, ran.count("cuCtxEnablePeerAccess"));
  }

  @ParameterizedTest
  @CsvSource({"FAKECUDA_NO_PEERS, 1", "NCCL_P2P_DISABLE, 1"})
  void gpusThatDoNotReachEachOtherGoThroughPinnedMemory(String name, String value)
      throws Exception {
    Ran ran = threads(Map.of(name, value));
    assertContains(ran, "transports {1=SHM}");
    assertFalse(ran.output().contains("with windows"), ran.output());
    assertEquals(4, ran.count("cuMemHostRegister_v2"), "each rank its own and the other's");
    assertEquals(0, ran.warnings(), ran.output());
  }

  /** A window's memory would else be reached by the way that is refused, forbidden or broken. */
  @ParameterizedTest
  @CsvSource({"FAKECUDA_NO_PEERS", "NCCL_P2P_DISABLE", "FAKECUDA_CORRUPT"})
  void gpusThatDoNotReachEachOtherHaveWindowsOfTheirOwn(String name) throws Exception {
    Map<String, String> settings =
        Map.of(name, "1", "JAVA_TOOL_OPTIONS", "-Dnccl4j.windows=1", "NCCL_SOCKET_IFNAME", "lo");
    List<Ran> both = processes(settings);
    for (int rank = 0; rank < 2; rank++) {
      Ran ran = both.get(rank);
      assertEquals(0, ran.status(), ran.output());
      assertContains(ran, "team [" + rank + "]");
      assertContains(ran, "window: registered");
      assertEquals(0, ran.calls().stream().filter(call -> call.contains("misuse")).count());
    }
  }

  /** GPUs that /sys does not have are at its CPU. */
  @ParameterizedTest
  @CsvSource({
    "PXB, SHM, is longer than P2P may use (PXB",
    "SYS, P2P, GPUs with peer access",
    "LOC, SHM, is longer than P2P may use (LOC"
  })
  void overPcieTheLevelChoosesTheTransport(String level, String transport, String reason)
      throws Exception {
    Map<String, String> settings =
        new HashMap<>(Map.of("FAKECUDA_PCIE", "1", "NCCL_DEBUG", "INFO", "NCCL_P2P_LEVEL", level));
    settings.values().remove("");
    Ran ran = threads(settings);
    assertContains(ran, "transports {1=%s}".formatted(transport));
    assertContains(ran, reason);
  }

  @ParameterizedTest
  @CsvSource({"NVL, P2P", "LOC, SHM"})
  void overNvlinkTheLevelChoosesTheTransport(String level, String transport) throws Exception {
    Ran ran = threads(Map.of("NCCL_P2P_LEVEL", level));
    assertContains(ran, "transports {1=%s}".formatted(transport));
  }

  /** Without the management library a process does not know of links to GPUs that it cannot see. */
  @ParameterizedTest
  @CsvSource({"'', P2P", "PXB, SHM"})
  void anUnseenGpuMayBeAtAnNvlink(String level, String transport) throws Exception {
    Map<String, String> settings =
        new HashMap<>(Map.of("FAKECUDA_PCIE", "1", "NCCL_P2P_LEVEL", level));
    settings.values().remove("");
    Map<String, String> other = new HashMap<>(settings);
    settings.put("FAKECUDA_VISIBLE", "0");
    other.put("FAKECUDA_VISIBLE", "1");
    for (Ran ran : processes(settings, other)) {
      assertEquals(0, ran.status(), ran.output());
      assertTrue(ran.output().contains("=%s}".formatted(transport)), ran.output());
    }
  }

  @Test
  void whatArrivesChangedIsNoticedAndAnotherWayTaken() throws Exception {
    Ran ran = threads(Map.of("FAKECUDA_CORRUPT", "1"));
    assertContains(ran, "transports {1=SHM}");
    assertContains(ran, "ranks 0 and 1 cannot use P2P and use SHM instead");
    assertContains(ran, "the data that rank 1 wrote arrived changed");
    assertContains(ran, "IOMMU");
    assertEquals(1, ran.warnings(), "one for the pair: " + ran.output());
  }

  @Test
  void theCheckCanBeLeftOut() throws Exception {
    Ran ran = threads(Map.of("FAKECUDA_CORRUPT", "1", "NCCL4J_P2P_CHECK", "0"));
    assertContains(ran, "transports {1=P2P}");
    assertEquals(0, ran.warnings(), ran.output());
  }

  @Test
  void whereNoOtherWayIsLeftAllAreTold() throws Exception {
    Ran ran =
        program
            .start(Map.of("FAKECUDA_CORRUPT", "1", "NCCL4J_TRANSPORTS", "P2P"), FakeGpuRanks.class)
            .end();
    assertEquals(1, ran.status(), ran.output());
    assertContains(ran, "no transport connects rank");
    // Either may be the first that fails.
    assertTrue(
        ran.output().matches("(?s).*the data that rank [01] wrote arrived changed.*"),
        ran.output());
  }

  @ParameterizedTest
  @CsvSource({
    "NCCL_P2P_DISABLE, 0, P2P, cuMemImportFromShareableHandle",
    "NCCL_CUMEM_ENABLE, 0, P2P, cuIpcOpenMemHandle_v2",
    "NCCL_P2P_DISABLE, 1, SHM, cuMemHostRegister_v2"
  })
  void processesGetAtEachOthersMemory(String name, String value, String transport, String call)
      throws Exception {
    List<Ran> both = processes(Map.of(name, value));
    for (int rank = 0; rank < 2; rank++) {
      Ran ran = both.get(rank);
      assertEquals(0, ran.status(), ran.output());
      assertContains(ran, "transports {%d=%s}".formatted(1 - rank, transport));
      assertTrue(ran.count(call) > 0, ran.calls().toString());
      assertEquals(0, ran.warnings(), ran.output());
      assertSound(ran);
    }
  }

  /** By descriptor, as GPUs without peer access that processes do not see, and by handle. */
  @ParameterizedTest
  @CsvSource({
    "1, cuMemImportFromShareableHandle:101, rank 1's memory cannot be mapped",
    "0, cuIpcOpenMemHandle_v2:201, rank 1's memory cannot be opened by its CUDA IPC handle"
  })
  void memoryThatCannotBeOpenedLeavesThePairToPinnedMemory(
      String descriptors, String failing, String reason) throws Exception {
    Map<String, String> settings =
        Map.of("NCCL_CUMEM_ENABLE", descriptors, "FAKECUDA_FAIL", failing);
    List<Ran> both = processes(settings);
    assertPinned(both);
    assertContains(both.get(0), "ranks 0 and 1 cannot use P2P and use SHM instead");
    assertContains(both.get(0), reason);
    assertContains(both.get(0), "--ipc=host");
    assertEquals(1, both.get(0).warnings() + both.get(1).warnings(), both.get(0).output());
  }

  private static void assertPinned(List<Ran> both) {
    for (int rank = 0; rank < 2; rank++) {
      Ran ran = both.get(rank);
      assertEquals(0, ran.status(), ran.output());
      assertContains(ran, "transports {%d=SHM}".formatted(1 - rank));
      assertEquals(0, ran.calls().stream().filter(call -> call.contains("misuse")).count());
      assertEquals(ran.count("cuMemMap"), ran.count("cuMemUnmap"), ran.calls().toString());
      assertEquals(ran.count("cuMemHostRegister_v2"), ran.count("cuMemHostUnregister"));
    }
  }

  /** The other one learns of it, having opened its peer's memory. */
  @ParameterizedTest
  @ValueSource(ints = {0, 1})
  void onlyOneOfAPairMayBeRefused(int refused) throws Exception {
    Map<String, String> fails = Map.of("FAKECUDA_FAIL", "cuMemImportFromShareableHandle:101");
    List<Ran> both = refused == 0 ? processes(fails, Map.of()) : processes(Map.of(), fails);
    assertPinned(both);
    assertContains(both.get(0), "rank %d's memory cannot be mapped".formatted(1 - refused));
    assertEquals(1, both.get(0).warnings() + both.get(1).warnings(), both.get(0).output());
  }

  @Test
  void withoutTheCheckMemoryThatCannotBeOpenedEndsCreation() throws Exception {
    Map<String, String> settings =
        Map.of("NCCL4J_P2P_CHECK", "0", "FAKECUDA_FAIL", "cuMemImportFromShareableHandle:101");
    for (Ran ran : processes(settings)) {
      assertEquals(1, ran.status(), ran.output());
      assertContains(ran, "memory cannot be mapped");
      assertContains(ran, "NCCL_P2P_DISABLE=1");
    }
  }

  @Test
  void instancesOfAGpuGoThroughPinnedMemoryAtOnce() throws Exception {
    List<Ran> both = processes(Map.of("FAKECUDA_MIG", "1"), Map.of("FAKECUDA_MIG", "2"));
    assertPinned(both);
    assertEquals(0, both.get(0).count("cuMemImportFromShareableHandle"));
    assertEquals(0, both.get(0).warnings() + both.get(1).warnings(), both.get(0).output());
  }

  @Test
  void ranksOnOneInstanceShareItsMemoryIfTheyMay() throws Exception {
    Map<String, String> instance =
        new HashMap<>(Map.of("FAKECUDA_MIG", "1", "FAKECUDA_VISIBLE", "0"));
    for (Ran ran : processes(instance)) {
      assertEquals(1, ran.status(), ran.output());
      assertContains(ran, "ranks 0 and 1 of communicator");
      assertContains(ran, "set NCCL_MULTI_RANK_GPU_ENABLE=1");
    }
    instance.put("NCCL_MULTI_RANK_GPU_ENABLE", "1");
    List<Ran> both = processes(instance);
    for (int rank = 0; rank < 2; rank++) {
      assertEquals(0, both.get(rank).status(), both.get(rank).output());
      assertContains(both.get(rank), "transports {%d=P2P}".formatted(1 - rank));
    }
  }

  /** P2P over NVLinks alone, where each process sees one GPU. */
  @Test
  void processesThatSeeOneGpuEachFindTheirNvlinks() throws Exception {
    FakeGpuProcess withNvml = FakeGpuProcess.in(other).withNvml();
    String id = UniqueId.create().toString();
    List<Running> running = new ArrayList<>();
    for (int rank = 0; rank < 2; rank++) {
      Map<String, String> settings =
          Map.of("FAKECUDA_VISIBLE", "" + rank, "FAKE_NVML", "two", "NCCL_P2P_LEVEL", "NVL");
      running.add(withNvml.start(settings, FakeGpuRank.class, "2", "" + rank, id));
    }
    for (int rank = 0; rank < 2; rank++) {
      assertContains(running.get(rank).end(), "transports {%d=P2P}".formatted(1 - rank));
    }
  }

  /** The management library shows the NVLinks of the GPU, which its instances cannot use. */
  @ParameterizedTest
  @CsvSource({
    "FAKECUDA_DEVICES, true, Optional[true] true",
    "FAKECUDA_MIG, false, Optional[false] false"
  })
  void anInstanceHasNoLinks(String setting, boolean links, String unseen) throws Exception {
    FakeGpuProcess withNvml = FakeGpuProcess.in(other).withNvml();
    Path dump = folder.resolve(setting + ".xml");
    Map<String, String> settings =
        Map.of(
            setting,
            "1",
            "FAKECUDA_VISIBLE",
            "0",
            "FAKE_NVML",
            "two",
            "NCCL_TOPO_DUMP_FILE",
            dump.toString());
    assertContains(withNvml.run(settings, UnseenGpu.class), "unseen: " + unseen);
    String id = UniqueId.create().toString();
    withNvml.run(settings, FakeGpuRank.class, "1", "0", id);
    assertEquals(links, Files.readString(dump).contains("<nvlink "), Files.readString(dump));
  }

  /** Each process sees one GPU alone, and the management library all. */
  @ParameterizedTest
  @CsvSource({
    "two, Optional[true], true",
    "three, Optional.empty, true",
    "apart, Optional[false], false"
  })
  void whatAProcessDoesNotSeeIsAskedOfTheManagementLibrary(
      String gpus, String nvlink, String access) throws Exception {
    FakeGpuProcess withNvml = FakeGpuProcess.in(other).withNvml();
    Ran ran = withNvml.run(Map.of("FAKECUDA_DEVICES", "1", "FAKE_NVML", gpus), UnseenGpu.class);
    assertContains(ran, "unseen: %s %s".formatted(nvlink, access));
  }

  /** A program that asks its GPU about the other. */
  static final class UnseenGpu {
    private UnseenGpu() {}

    /** No arguments. */
    public static void main(String[] none) {
      CudaDevice device = Devices.cuda().device(0);
      String peer = "0000:0b:00.0";
      System.out.println("unseen: " + device.nvlink(peer) + " " + device.mayAccess(peer));
    }
  }
}
