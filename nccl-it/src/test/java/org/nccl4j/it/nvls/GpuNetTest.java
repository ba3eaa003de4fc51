package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.UniqueId;
import org.nccl4j.it.api.FakeVerbsLibrary;
import org.nccl4j.it.api.NetPluginLibrary;
import org.nccl4j.it.cli.Main;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;
import org.nccl4j.it.nvls.FakeGpuProcess.Running;

/** GPUs that reach each other over a network, through pinned memory that proxies carry. */
@Timeout(600)
class GpuNetTest {
  private static final Map<String, String> ONLY_NET =
      Map.of("NCCL_P2P_DISABLE", "1", "NCCL_SHM_DISABLE", "1", "NCCL_SOCKET_IFNAME", "lo");
  private static final Pattern PINNED = Pattern.compile("cuMemHostRegister_v2\\((\\d+),.*");

  private static final String[][] DONE_AND_UNDONE = {
    {"cuMemCreate", "cuMemRelease"},
    {"cuMemMap", "cuMemUnmap"},
    {"cuMemAddressReserve", "cuMemAddressFree"},
    {"cuMemHostRegister_v2", "cuMemHostUnregister"},
  };

  @TempDir static Path folder;
  private static FakeGpuProcess program;

  @BeforeAll
  static void buildTheFake() throws Exception {
    program = FakeGpuProcess.in(folder);
  }

  private static void assertNothingIsLeft(Ran ran) {
    assertEquals(0, ran.calls().stream().filter(call -> call.contains("misuse")).count());
    assertTrue(ran.count("cuMemHostRegister_v2") > 0, "nothing was pinned");
    assertEquals(ran.count("cuMemHostRegister_v2"), ran.count("cuMemHostUnregister"));
  }

  private static void assertContains(Ran ran, String text) {
    assertTrue(ran.output().contains(text), ran.output());
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 4, 16, 32})
  void whatKernelsPutIntoSlotsArrivesAndNoChannelWaitsForAnother(int channels) throws Exception {
    Ran ran =
        program.run(
            Map.of("NCCL_NCHANNELS_PER_NET_PEER", Integer.toString(channels)),
            CarriedSlots.class,
            "exchange");
    assertContains(ran, "carried %d channels".formatted(channels));
    assertNothingIsLeft(ran);
  }

  /** Messages say by their sizes whether they hold lines, since a plug-in has no notes. */
  @ParameterizedTest
  @ValueSource(ints = {8, 11})
  void stepsInLinesGoThroughPlugIns(int version) throws Exception {
    String plugin = NetPluginLibrary.build(folder, version, "slots");
    Ran ran = program.run(Map.of("NCCL_NET_PLUGIN", plugin), CarriedSlots.class, "plugin");
    assertContains(ran, "carried 2 channels in LL");
    assertNothingIsLeft(ran);
  }

  @Test
  void aSlowNetworkThatReordersLosesNothing() throws Exception {
    Ran ran = program.run(Map.of(), CarriedSlots.class, "slow");
    assertContains(ran, "carried 2 channels");
    assertNothingIsLeft(ran);
  }

  /** Slots that a proxy has sent, or received in part, when the socket breaks. */
  @ParameterizedTest
  @ValueSource(ints = {0, 2})
  void slotsArriveAlthoughSocketsAreResetAgainAndAgain(int threads) throws Exception {
    Map<String, String> settings =
        Map.of(
            "NCCL4J_FAULTS",
            "resetsAfter=500000",
            "NCCL_SOCKET_NTHREADS",
            Integer.toString(threads));
    Ran ran = program.run(settings, CarriedSlots.class, "resets");
    assertContains(ran, "carried 2 channels");
    assertContains(ran, "has taken over after");
    assertNothingIsLeft(ran);
  }

  private Ran byCards(int channels, Map<String, String> more, String... arguments)
      throws Exception {
    Map<String, String> settings = new HashMap<>(more);
    settings.put("NCCL_NCHANNELS_PER_NET_PEER", Integer.toString(channels));
    settings.put("NCCL_IBVERBS_LIB", FakeVerbsLibrary.path());
    List<String> all = new ArrayList<>(List.of("cards"));
    all.addAll(List.of(arguments));
    Ran ran = program.run(settings, CarriedSlots.class, all.toArray(String[]::new));
    assertContains(ran, "carried %d channels".formatted(channels));
    assertContains(ran, "left 0");
    assertEquals(0, ran.calls().stream().filter(call -> call.contains("misuse")).count());
    for (String[] pair : DONE_AND_UNDONE) {
      if (more.getOrDefault("FAKECUDA_FAIL", "").startsWith(pair[0])) {
        continue; // the calls that failed count too
      }
      assertEquals(ran.count(pair[0]), ran.count(pair[1]), pair[0]);
    }
    return ran;
  }

  /** 300 steps of each channel both ways, each flushed; two ends of each of two ranks. */
  @ParameterizedTest
  @ValueSource(ints = {1, 4})
  void cardsThatAccessTheGpusMemoryCarrySlotsThere(int channels) throws Exception {
    Ran ran = byCards(channels, Map.of());
    assertContains(ran, "by roce0:1; GPUDirect: yes, by dma-buf, they are near");
    assertContains(ran, "flushes %d,".formatted(2 * 300 * channels));
    assertContains(ran, "dma-bufs 6"); // two that ask, and one of each end for all channels
    assertEquals(0, ran.warnings(), ran.output());
    assertEquals(0, ran.count("cuMemHostRegister_v2"));
    assertEquals(4, ran.count("cuMemCreate"), "memory of the host and of the GPU for each rank");
    assertEquals(4, ran.count("cuMemGetHandleForAddressRange"));
    assertContains(ran, "device memory " + (32 << 20));
  }

  /** The topology gives the GPU two cards, whose slots lie in the GPU all the same. */
  @ParameterizedTest
  @CsvSource({"1, 'roce0:1,roce0:2', 0", "4, 'roce0:1,roce0:2', 2", "4, 'roce0:2', 4"})
  void channelsTakeTurnsWithTheCardsOfAGpu(int channels, String nearest, int ofSecond)
      throws Exception {
    Ran ran =
        byCards(channels, Map.of("NCCL_IB_MERGE_NICS", "0", "NEAREST_NETS", nearest), "ports");
    Matcher pairs = Pattern.compile("queue pairs of ports: (\\d+), (\\d+)").matcher(ran.output());
    assertTrue(pairs.find(), ran.output());
    int first = Integer.parseInt(pairs.group(1));
    int second = Integer.parseInt(pairs.group(2));
    assertEquals(ofSecond * (first + second), channels * second, ran.output());
    assertContains(
        ran,
        "by IB/"
            + (ofSecond == 0 ? "roce0:1" : ofSecond == channels ? "roce0:2" : "roce0:1+roce0:2"));
    assertEquals(0, ran.warnings(), ran.output());
    assertEquals(0, ran.count("cuMemHostRegister_v2"), "slots are in the GPU");
  }

  /** Neighbours, which are ranks 1 to 3, have more channels than other pairs. */
  @ParameterizedTest
  @CsvSource({"9 1 2 10 3, '16, 32, 32, 16, 32'", "1 9 2 10 11, '32, 16, 32, 16, 16'"})
  void endsWithOtherNumbersOfChannelsKeepTheirSlots(String peers, String channels)
      throws Exception {
    Map<String, String> settings =
        Map.of("NCCL_IBVERBS_LIB", FakeVerbsLibrary.path(), "NET_CHANNELS", "77");
    Ran ran = program.run(settings, MixedSlots.class, peers.split(" "));
    assertContains(ran, "kept all of [%s] channels".formatted(channels));
    assertEquals(0, ran.count("cuMemHostRegister_v2"), "slots are in the GPU");
    assertEquals(0, ran.warnings(), ran.output());
  }

  /** Such as with a card that has trained lower: then the first one carries all, at both ends. */
  @Test
  void channelsTakeNoTurnsWhereTheOtherGpusCardsDiffer() throws Exception {
    Map<String, String> settings =
        Map.of(
            "NCCL_IB_MERGE_NICS", "0", "NEAREST_NETS", "roce0:2,roce0:1", "OTHER_NETS_DIFFER", "1");
    Ran ran = byCards(4, settings, "ports");
    assertContains(ran, "queue pairs of ports: 0, ");
    assertContains(ran, "by IB/roce0:2");
    assertEquals(0, ran.warnings(), ran.output());
  }

  /** As many as there can be; the fake cards' list of calls has no room for all flushes. */
  @Test
  void cardsCarryHalfOfAllChannels() throws Exception {
    Ran ran = byCards(32, Map.of());
    assertContains(ran, "by roce0:1; GPUDirect: yes, by dma-buf, they are near");
    assertEquals(0, ran.warnings(), ran.output());
    assertEquals(0, ran.count("cuMemHostRegister_v2"));
  }

  /** A whole communicator, whose engine asks the topology: 5 channels for 25 GB/s, 4 ends. */
  @ParameterizedTest
  @CsvSource({
    "SYS, 'yes, by dma-buf, the path is PIX', 4",
    "LOC, 'no, the NIC is farther than NCCL_NET_GDR_LEVEL allows (LOC)', 0"
  })
  void theTopologySaysWhetherCardsAreNearEnough(String level, String words, int dmaBufs)
      throws Exception {
    Map<String, String> settings = new HashMap<>(ONLY_NET);
    settings.putAll(FakeCards.settings(folder));
    settings.put("NCCL_NET_GDR_LEVEL", level);
    Ran ran = program.run(settings, FakeGpuRanks.class);
    assertContains(ran, "NET, both have network IB, by roce0:1; GPUDirect: " + words);
    assertEquals(dmaBufs, ran.count("cuMemGetHandleForAddressRange"), "by end");
    assertEquals(dmaBufs == 0, ran.count("cuMemHostRegister_v2") > 0);
    assertEquals(0, ran.warnings(), ran.output());
    assertEquals(0, ran.calls().stream().filter(call -> call.contains("misuse")).count());
    for (String[] pair : DONE_AND_UNDONE) {
      assertEquals(ran.count(pair[0]), ran.count(pair[1]), pair[0]);
    }
  }

  @ParameterizedTest
  @CsvSource({
    "1, 'directly (by dma-buf, where NCCL_NET_GDR_LEVEL allows the path)'",
    "0, 'through memory of the host, because NCCL_DMABUF_ENABLE=0 forbids dma-bufs'"
  })
  void theDoctorSaysHowDataMoveBetweenGpusAndCards(String dmaBufs, String words) throws Exception {
    Map<String, String> settings = new HashMap<>(FakeCards.settings(folder));
    settings.put("NCCL_DMABUF_ENABLE", dmaBufs);
    Ran ran = program.start(settings, Main.class, "doctor").end();
    assertContains(ran, "and network roce0:1: " + words);
  }

  @Test
  void memoryOfTheGpusComesAndGoesWithSuspensions() throws Exception {
    Map<String, String> settings = new HashMap<>(ONLY_NET);
    settings.putAll(FakeCards.settings(folder));
    settings.put("JAVA_TOOL_OPTIONS", "-Dnccl4j.suspensions=2");
    Ran ran = program.run(settings, FakeGpuRanks.class);
    assertContains(ran, "suspended with 0");
    assertEquals(3 * 4, ran.count("cuMemGetHandleForAddressRange"));
    for (String[] pair : DONE_AND_UNDONE) {
      assertEquals(ran.count(pair[0]), ran.count(pair[1]), pair[0]);
    }
  }

  /** The first two registrations ask whether any are possible; later ones are by end. */
  @ParameterizedTest
  @ValueSource(ints = {3, 5})
  void aCardThatRefusesInTheMiddleLeavesPinnedMemory(int taken) throws Exception {
    Ran ran = byCards(2, Map.of(), Integer.toString(taken));
    assertContains(ran, "data go through pinned memory of the host instead");
    assertEquals(6 - taken, ran.warnings(), ran.output()); // an end each
    assertNothingIsLeft(ran);
  }

  @ParameterizedTest
  @ValueSource(strings = {"cuMemMap:801", "cuMemGetHandleForAddressRange:801"})
  void aDriverThatRefusesLeavesPinnedMemory(String failure) throws Exception {
    Ran ran = byCards(2, Map.of("FAKECUDA_FAIL", failure));
    assertEquals(4, ran.warnings(), ran.output());
    assertContains(ran, failure.substring(0, failure.indexOf(':')));
    assertContains(ran, "flushes 0,");
    assertNothingIsLeft(ran);
  }

  @Test
  void whatTheGpuLacksIsSaidWithoutAWarning() throws Exception {
    Ran ran = byCards(1, Map.of("FAKECUDA_LACKS", "141"));
    assertEquals(0, ran.warnings(), ran.output());
    assertContains(ran, "GPUDirect: no, ");
    assertContains(ran, "CUDA 12.2");
    assertContains(ran, "flushes 0,");
    assertNothingIsLeft(ran);
  }

  private Ran byRelay(Map<String, String> more, String... arguments) throws Exception {
    Map<String, String> settings = new HashMap<>(more);
    settings.put("NCCL_IBVERBS_LIB", FakeVerbsLibrary.path());
    Ran ran = program.run(settings, RelayedSlots.class, arguments);
    String channels = settings.getOrDefault("NCCL_NCHANNELS_PER_NET_PEER", "2");
    assertContains(ran, "carried %s channels".formatted(channels));
    assertEquals(0, ran.calls().stream().filter(call -> call.contains("misuse")).count());
    for (String[] pair : DONE_AND_UNDONE) {
      boolean imports = pair[0].equals("cuMemCreate");
      long made = ran.count(pair[0]) + (imports ? ran.count("cuMemImportFromShareableHandle") : 0);
      assertEquals(made, ran.count(pair[1]), pair[0]);
    }
    return ran;
  }

  /** Rank 0's kernels write into memory of rank 1's GPU, from which the card sends. */
  @ParameterizedTest
  @ValueSource(ints = {2, 32})
  void slotsLieInTheGpuBesideTheCard(int channels) throws Exception {
    Map<String, String> settings =
        Map.of("NCCL_NCHANNELS_PER_NET_PEER", Integer.toString(channels));
    Ran ran = byRelay(settings, "cards");
    assertContains(ran, "to 2: both have network IB, through roce0:1 and the memory of rank 1");
    assertContains(ran, "rank 1 holds " + (32 << 20));
    assertContains(ran, "left 0");
    assertEquals(4, ran.count("cuMemExportToShareableHandle"), "tried, and of both parts");
    assertEquals(2, ran.count("cuMemImportFromShareableHandle"));
    assertEquals(0, ran.count("cuMemHostRegister_v2"));
    assertEquals(0, ran.warnings(), ran.output());
  }

  /** The relay's GPU has two cards, and so has the receiver's; or the topology says otherwise. */
  @ParameterizedTest
  @CsvSource({"0, true", "1, false"})
  void channelsTakeTurnsWithTheCardsBesideTheRelay(String differ, boolean both) throws Exception {
    Map<String, String> settings =
        Map.of(
            "NCCL_NCHANNELS_PER_NET_PEER",
            "4",
            "NCCL_IB_MERGE_NICS",
            "0",
            "NEAREST_NETS",
            "roce0:1,roce0:2",
            "OTHER_NETS_DIFFER",
            differ);
    Ran ran = byRelay(settings, "ports");
    assertContains(ran, "through roce0:1 and the memory of rank 1");
    Matcher pairs = Pattern.compile("queue pairs of ports: (\\d+), (\\d+)").matcher(ran.output());
    assertTrue(pairs.find(), ran.output());
    assertEquals(both ? pairs.group(1) : "0", pairs.group(2));
    assertContains(ran, "left 0");
    assertEquals(0, ran.count("cuMemHostRegister_v2"), "slots are in the GPU");
    assertEquals(0, ran.warnings(), ran.output());
  }

  /** Whole communicators, whose engine asks the topology which rank sends by which card. */
  @Test
  void ranksOfAHostConnectForEachOther() throws Exception {
    Ran ran = program.run(Map.of(), RailGpus.class, folder.toString());
    for (int relay : new int[] {0, 1, 2, 3}) {
      assertContains(ran, "through lo and the memory of rank %d beside it (PXN)".formatted(relay));
    }
    assertEquals(0, ran.warnings(), ran.output());
    assertNothingIsLeft(ran);
  }

  /** Slow cards, which it spares; with fast ones the channels limit it as they limit rings. */
  @ParameterizedTest
  @CsvSource({"25000, '', true", "25000, ^Hierarchical, false", "200000, '', false"})
  void hierarchicalIsChosenWhereTheNetworkLimits(int megabits, String algorithms, boolean chosen)
      throws Exception {
    Ran ran =
        program.run(
            Map.of("NCCL_ALGO", algorithms),
            RailGpus.class,
            folder.toString(),
            Integer.toString(megabits));
    String gather = ran.output().substring(ran.output().indexOf("AllGather of"));
    assertContains(ran, "topology, a ring's steps, a third added as it is not measured");
    String best = "chosen: Hierarchical Simple, the cheapest that is allowed";
    assertEquals(chosen, gather.contains(best), ran.output());
    assertEquals(0, ran.warnings(), ran.output());
    assertNothingIsLeft(ran);
  }

  @Test
  void hierarchicalIsForThoseWhoNameIt() throws Exception {
    Map<String, String> named = Map.of("NCCL_ALGO", "Hierarchical");
    Ran ran = program.run(named, RailGpus.class, folder.toString());
    assertEquals(3, ran.output().split("chosen: Hierarchical Simple").length, ran.output());
    assertEquals(0, ran.warnings(), ran.output());
    assertNothingIsLeft(ran);
  }

  @Test
  void slotsOfAnotherRankLieInTheHostsMemoryWhereCardsTakeNoOther() throws Exception {
    Ran ran = byRelay(Map.of(), "sockets");
    assertContains(ran, "to 2: both have network Socket, through lo and the memory of rank 1");
    assertContains(ran, "rank 1 holds 0");
    assertEquals(0, ran.count("cuMemImportFromShareableHandle"));
    assertTrue(ran.count("cuMemHostRegister_v2") > 0);
    assertEquals(0, ran.warnings(), ran.output());
  }

  /** The first two dma-bufs ask whether any are taken; others then are refused in the middle. */
  @ParameterizedTest
  @ValueSource(ints = {3, 6})
  void aCardThatRefusesAnotherRanksSlotsLeavesMemoryOfTheHost(int taken) throws Exception {
    Ran ran = byRelay(Map.of(), "cards", Integer.toString(taken));
    assertContains(ran, "data go through pinned memory of the host instead");
    assertContains(ran, "left 0");
  }

  @Test
  void aDriverThatSharesNoSuchMemoryLeavesMemoryOfTheHost() throws Exception {
    Ran ran = byRelay(Map.of("FAKECUDA_FAIL", "cuMemExportToShareableHandle:801"), "cards");
    assertContains(ran, "data go through pinned memory of the host instead");
    assertContains(ran, "left 0");
  }

  @Test
  void aRankThatIsGoneIsNamed() throws Exception {
    Ran ran = program.run(Map.of(), CarriedSlots.class, "death");
    assertContains(ran, "rank 0 says: rank 0 has lost its connection with rank 1");
    assertNothingIsLeft(ran);
  }

  @Test
  void communicatorsAreMadeAndPinOnlyWhatIsUsed() throws Exception {
    Ran ran = program.run(ONLY_NET, FakeGpuRanks.class);
    assertContains(ran, "transports {1=NET}");
    assertContains(ran, "over a network, 2 channels");
    assertEquals(0, ran.warnings(), ran.output());
    assertNothingIsLeft(ran);
    long pinned =
        ran.calls().stream()
            .map(PINNED::matcher)
            .filter(Matcher::matches)
            .mapToLong(match -> Long.parseLong(match.group(1)))
            .sum();
    assertTrue(pinned <= 2 * 2 * (2 << 20), pinned + " bytes for two ends of each of two ranks");
  }

  @Test
  void processesOfTwoHostsGoOverTheNetwork() throws Exception {
    String id = UniqueId.create().toString();
    List<Running> running = new ArrayList<>();
    for (int rank = 0; rank < 2; rank++) {
      Map<String, String> settings =
          Map.of("NCCL_HOSTID", "host" + rank, "NCCL_SOCKET_IFNAME", "lo");
      running.add(program.start(settings, FakeGpuRank.class, "2", Integer.toString(rank), id));
    }
    for (Running process : running) {
      Ran ran = process.end();
      assertEquals(0, ran.status(), ran.output());
      assertContains(ran, "=NET}");
      assertEquals(0, ran.warnings(), ran.output());
      assertNothingIsLeft(ran);
    }
  }

  @Test
  void ranksWithOtherChannelsAreToldWhichSettingDiffers() throws Exception {
    String id = UniqueId.create().toString();
    List<Running> running = new ArrayList<>();
    for (int rank = 0; rank < 2; rank++) {
      Map<String, String> settings = new HashMap<>(ONLY_NET);
      settings.put("NCCL_NCHANNELS_PER_NET_PEER", Integer.toString(1 + rank));
      running.add(program.start(settings, FakeGpuRank.class, "2", Integer.toString(rank), id));
    }
    for (Running process : running) {
      Ran ran = process.end();
      assertEquals(1, ran.status(), ran.output());
      assertContains(ran, "give all ranks the same NCCL_NCHANNELS_PER_NET_PEER");
    }
  }

  @Test
  void anOperationHasNoMoreChannelsThanAreCarried() throws Exception {
    Map<String, String> settings = new HashMap<>(ONLY_NET);
    settings.put("JAVA_TOOL_OPTIONS", "-Dnccl4j.ctas=true");
    Ran ran = program.run(settings, FakeGpuRanks.class);
    assertTrue(ran.calls().stream().anyMatch(call -> call.startsWith("cuLaunchKernelEx(2,")));
    assertTrue(
        ran.calls().stream()
            .noneMatch(call -> call.matches("cuLaunchKernelEx\\(([3-9]|\\d\\d+),.*")));
  }

  @Test
  void memoryThatCannotBePinnedIsAnErrorOfBothRanks() throws Exception {
    Map<String, String> settings = new HashMap<>(ONLY_NET);
    settings.put("FAKECUDA_FAIL", "cuMemHostRegister_v2:2");
    Ran ran = program.start(settings, FakeGpuRanks.class).end();
    assertEquals(1, ran.status(), ran.output());
    assertContains(ran, "cuMemHostRegister of ");
  }
}
