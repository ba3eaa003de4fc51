package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.it.api.NetPluginLibrary;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;

/** Puts and signals between GPUs of several machines, by what streams do without kernels. */
@Timeout(600)
class GpuPutTest {
  @TempDir static Path folder;
  private static FakeGpuProcess program;

  @BeforeAll
  static void buildTheFake() throws Exception {
    program = FakeGpuProcess.in(folder);
  }

  private static Ran run(Map<String, String> settings, String mode) throws Exception {
    return run(settings, FarPuts.class, mode);
  }

  private static Ran run(Map<String, String> settings, Class<?> of, String mode) throws Exception {
    Ran ran = program.run(settings, of, mode);
    assertEquals(0, ran.calls().stream().filter(call -> call.contains("misuse")).count());
    assertEquals(ran.count("cuMemHostRegister_v2"), ran.count("cuMemHostUnregister"));
    assertEquals(ran.count("cuMemHostAlloc"), ran.count("cuMemFreeHost"));
    // Each of the two devices keeps its stream for fills and copies as long as the process lives.
    assertEquals(
        ran.count("cuStreamCreate") + ran.count("cuStreamCreateWithPriority"),
        ran.count("cuStreamDestroy_v2") + 2);
    return ran;
  }

  private static void assertContains(Ran ran, String text) {
    assertTrue(ran.output().contains(text), ran.output());
  }

  @Test
  void whatIsPutIsThereWhenTheSignalHasCome() throws Exception {
    Ran ran = run(Map.of(), "exchange");
    assertContains(ran, "rank 0 has all of 3 rounds");
    assertContains(ran, "rank 1 has all of 3 rounds");
    assertEquals(0, ran.count("cuLaunchKernelEx"), "no kernel takes part");
    assertEquals(0, ran.warnings(), ran.output());
  }

  /** Collectives' slots are in the GPUs then, and those of puts with the host all the same. */
  @Test
  void cardsThatAccessTheGpusMemoryCarryPutsToo() throws Exception {
    Ran ran = run(FakeCards.settings(folder), "exchange");
    assertContains(ran, "rank 1 has all of 3 rounds");
    assertContains(ran, "by roce0:1; GPUDirect: yes, by dma-buf, the path is PIX");
    assertTrue(ran.count("cuMemGetHandleForAddressRange") > 0);
    assertTrue(ran.count("cuMemHostRegister_v2") > 0);
    assertEquals(0, ran.warnings(), ran.output());
  }

  private static Ran direct(String mode, Map<String, String> more) throws Exception {
    Map<String, String> settings = new HashMap<>(FakeCards.settings(folder));
    settings.put("NCCL_DEBUG", "INFO");
    settings.putAll(more);
    Ran ran = run(settings, DirectPuts.class, mode);
    assertContains(ran, "rank 0 has all");
    assertContains(ran, "rank 1 has all");
    assertContains(ran, "left 0");
    return ran;
  }

  private static int number(Ran ran, String before) {
    return ran.output()
        .lines()
        .filter(line -> line.startsWith(before))
        .mapToInt(line -> Integer.parseInt(line.substring(before.length())))
        .findFirst()
        .orElseThrow();
  }

  private static int dmaBufsOfUsers(Ran ran) {
    return number(ran, "dma-bufs after ") - number(ran, "dma-bufs before ");
  }

  /**
   * The card reads and writes at any byte. Each rank registers its source and its window once,
   * whatever the number of puts.
   */
  @ParameterizedTest
  @CsvSource({"registered, 4", "allocated, 4", "window, 2"})
  void registeredMemoryIsSentFromAndReceivedInWhereItLies(String mode, int registrations)
      throws Exception {
    Ran ran = direct(mode, Map.of());
    assertContains(ran, "directly (by dma-buf, the path is PIX)");
    assertEquals(registrations, dmaBufsOfUsers(ran), ran.output());
    assertTrue(number(ran, "flushes ") > 0, "what is received is flushed");
    assertEquals(0, ran.warnings(), ran.output());
    // Few puts are so small that they are copied into slots.
    assertTrue(ran.count("cuMemcpyAsync") < 20, "copies: " + ran.count("cuMemcpyAsync"));
  }

  /** The card must not write before what came earlier is copied, which takes its time. */
  @Test
  void whatCardsWriteComesAfterEarlierCopies() throws Exception {
    direct("after", Map.of("FAKECUDA_LATE_COPIES", "4"));
  }

  /** The memory of the GPUs is registered with the queue pairs that take over, too. */
  @Test
  void whatABrokenQueuePairHasLeftIsRetransmissions() throws Exception {
    Ran ran = direct("broken", Map.of());
    assertContains(ran, "has taken over after");
  }

  /** The card would write into memory that is gone: the fake's keeps the pages of a dma-buf. */
  @Test
  void memoryThatIsRegisteredAgainAtItsAddressIsAnother() throws Exception {
    Ran ran = direct("again", Map.of());
    assertContains(ran, "an address came again");
    assertEquals(4 * number(ran, "times "), dmaBufsOfUsers(ran), ran.output());
  }

  @ParameterizedTest
  @CsvSource({
    "NCCL4J_NET_ZERO_COPY, off",
    "NCCL_NET_GDR_LEVEL, LOC",
    "NCCL_DMABUF_ENABLE, 0",
    "FAKECUDA_LACKS, 124"
  })
  void settingsAndOldDriversKeepUsersMemoryFromCards(String name, String value) throws Exception {
    Ran ran = direct("registered", Map.of(name, value));
    assertEquals(0, dmaBufsOfUsers(ran), ran.output());
    assertTrue(ran.count("cuMemcpyAsync") > 100, "copies: " + ran.count("cuMemcpyAsync"));
    if (!value.equals("off")) {
      assertContains(ran, "through memory of the host, because ");
    }
    assertEquals(0, ran.warnings(), ran.output());
  }

  /** Slots of collectives need more of the driver than users' memory. */
  @Test
  void cardsTakeUsersMemoryWhereTheDriverHasNoMemoryForSlots() throws Exception {
    Ran ran = direct("registered", Map.of("FAKECUDA_LACKS", "141"));
    assertEquals(4, dmaBufsOfUsers(ran), ran.output());
  }

  /**
   * Receives through a plug-in cannot be moved, so the first steps of a put come to slots: without
   * registration all steps of the puts, some 800, are copied twice.
   */
  @ParameterizedTest
  @CsvSource({"2, 'by nvidia_peermem'", "4, 'by dma-buf'"})
  void pluginsForNcclTakeUsersMemoryToo(int pointers, String way) throws Exception {
    String plugin =
        NetPluginLibrary.build(
            folder, 9, "gpus" + pointers, "-DPOINTERS=" + (1 + pointers), "-DDEVICE=\"roce0\"");
    Map<String, String> settings = Map.of("NCCL_NET", "Plugin", "NCCL_NET_PLUGIN", plugin);
    Ran ran = direct("registered", settings);
    assertContains(ran, "directly (" + way + ", the path is PIX)");
    Map<String, String> slots = new HashMap<>(settings);
    slots.put("NCCL4J_NET_ZERO_COPY", "off");
    long copies = direct("registered", slots).count("cuMemcpyAsync");
    assertTrue(
        2 * ran.count("cuMemcpyAsync") < copies, ran.count("cuMemcpyAsync") + " of " + copies);
    assertEquals(0, ran.warnings(), ran.output());
  }

  @Test
  void aCardThatRefusesUsersMemoryLeavesSlotsAndSaysWhy() throws Exception {
    Ran ran = direct("refused", Map.of());
    assertContains(ran, "go through slots of the host's memory, which is slower");
    assertEquals(4, ran.warnings(), ran.output());
  }

  /** GPUs of one process that are in no team together, as where machines have different numbers. */
  @Test
  void ranksThatReachEachOtherOtherwisePutOverANetworkToo() throws Exception {
    Ran ran = run(Map.of("JAVA_TOOL_OPTIONS", "-Dnccl4j.by=P2P,NET"), "exchange");
    assertContains(ran, "with ranks [1]: P2P,");
    assertContains(ran, "rank 0 has all of 3 rounds");
  }

  @Test
  void aRankThatCallsNothingIsWrittenTo() throws Exception {
    assertContains(run(Map.of(), "late"), "rank 1 has it");
  }

  @Test
  void aSignalThatDoesNotComeEndsTheWaitAndNamesTheRank() throws Exception {
    Ran ran = run(Map.of(), "silent");
    assertContains(ran, "waited longer than 200 ms for rank 1 to signal");
  }

  @Test
  void capturesAreRefusedAndLeaveAllAsItWas() throws Exception {
    Ran ran = run(Map.of(), "captured");
    assertContains(ran, "captured: putSignal of rank 0");
    assertContains(ran, "captured: signal of rank 1");
    assertContains(ran, "captured: waitSignal of rank 1");
  }

  @Test
  void aGpuWithoutWideMemoryOperationsIsRefusedByAllRanks() throws Exception {
    Ran ran = run(Map.of("FAKECUDA_LACKS", "122"), "refused");
    assertContains(ran, "refused: putSignal on rank 0");
    assertContains(ran, "refused: signal on rank 1");
    assertContains(ran, "rank 0 says: streams of CUDA device 0");
  }

  /** The proxy copies by streams of its own, as it must beside a kernel that waits. */
  @Test
  void whatKernelsPutIsThereWhenTheSignalHasCome() throws Exception {
    Ran ran = run(Map.of(), FarKernelPuts.class, "exchange");
    assertContains(ran, "rank 0 has all of 3 rounds");
    assertContains(ran, "rank 1 has all of 3 rounds");
    assertContains(ran, "rank 0 has got all of 3 rounds");
    assertContains(ran, "rank 1 has got all of 3 rounds");
    assertEquals(0, ran.count("cuLaunchKernelEx"), "no kernel of the library takes part");
    assertEquals(0, ran.warnings(), ran.output());
  }

  /** The card reads and writes the windows. */
  @Test
  void cardsCarryLargePutsAndGetsOfKernelsBetweenWindows() throws Exception {
    Map<String, String> settings = new HashMap<>(FakeCards.settings(folder));
    assertTrue(copiesOf("large", settings) < 20, "data go between windows");
    assertTrue(copiesOf("exchange", settings) > 1000, "small ones go by slots");
    settings.put("NCCL4J_NET_ZERO_COPY", "off");
    assertTrue(copiesOf("large", settings) > 500, "all go by slots");
  }

  /** Its refusal is remembered: the proxy's thread does not copy step by step. */
  @Test
  void kernelsPutsGoBySlotsOnceACardRefusesTheWindows() throws Exception {
    Ran ran = run(FakeCards.settings(folder), FarKernelPuts.class, "refused");
    assertContains(ran, "rank 0 has got all of 3 rounds");
    assertContains(ran, "rank 1 has got all of 3 rounds");
    assertContains(ran, "go through slots of the host's memory, which is slower");
    long single = ran.count("cuMemcpyDtoHAsync_v2");
    assertTrue(single < 100, "copies for which a thread waits: " + single);
    assertEquals(4, ran.warnings(), ran.output());
  }

  private static long copiesOf(String mode, Map<String, String> settings) throws Exception {
    Ran ran = run(settings, FarKernelPuts.class, mode);
    assertContains(ran, "rank 0 has got all of 3 rounds");
    assertContains(ran, "rank 1 has got all of 3 rounds");
    assertEquals(0, ran.warnings(), ran.output());
    return ran.count("cuMemcpyAsync");
  }

  /** Each of both ranks' puts and gets overlaps others, which went another way. */
  @Test
  void kernelsPutsAndGetsStayInOrderWhateverTheirWay() throws Exception {
    Map<String, String> settings = new HashMap<>(FakeCards.settings(folder));
    settings.put("FAKECUDA_LATE_COPIES", "1");
    copiesOf("exchange", settings);
  }

  @Test
  void kernelsPutsAndGetsOutliveBrokenQueuePairs() throws Exception {
    Map<String, String> settings = new HashMap<>(FakeCards.settings(folder));
    settings.put("NCCL_DEBUG", "INFO");
    Ran ran = run(settings, FarKernelPuts.class, "broken");
    assertContains(ran, "rank 0 has got all of 3 rounds");
    assertContains(ran, "rank 1 has got all of 3 rounds");
    assertContains(ran, "has taken over after");
  }

  @Test
  void getsFromALostRankEnd() throws Exception {
    assertContains(run(Map.of(), FarKernelPuts.class, "lost"), "rank 0 hears of the end");
    Ran ran = run(FakeCards.settings(folder), FarKernelPuts.class, "lost");
    assertContains(ran, "rank 0 hears of the end");
  }

  @Test
  void aGetOfAKernelBeyondAWindowFailsBothRanksWithTheReason() throws Exception {
    Ran ran = run(Map.of(), FarKernelPuts.class, "beyond");
    assertContains(ran, "rank 0 says: a get of a kernel of rank 0");
    assertContains(ran, "is of 4 bytes from byte 2000000 of window 2, which has 2000003 bytes");
    assertContains(ran, "rank 1 says: ");
  }

  @Test
  void aPutOfAKernelBeyondAWindowFailsBothRanksWithTheReason() throws Exception {
    Ran ran = run(Map.of(), FarKernelPuts.class, "wrong");
    assertContains(ran, "rank 0 says: a put of a kernel of rank 0");
    assertContains(ran, "is of 4 bytes into byte 2000000 of window 2, which has 2000003 bytes");
    assertContains(ran, "rank 1 says: ");
  }

  /** Signals of two kernels at a time would count as one. */
  @Test
  void withoutAtomicsBetweenGpusThereAreNoSignals() throws Exception {
    Map<String, String> pcie = Map.of("FAKECUDA_PCIE", "1", "NCCL_P2P_LEVEL", "SYS");
    Ran ran = program.start(pcie, FarKernelPuts.class, "near").end();
    assertTrue(
        ran.output().contains("the GPUs of ranks 0 and 1 have none (no NVLink between them)"),
        ran.output());
  }

  /** Nothing is posted there: kernels store to each other themselves. */
  @Test
  void kernelsOnOneMachineHearOfTheEndToo() throws Exception {
    Ran ran = run(Map.of(), FarKernelPuts.class, "near");
    for (int rank = 0; rank < 2; rank++) {
      assertContains(
          ran, "rank %d says: a kernel of rank %d waited for signal 1".formatted(rank, rank));
      assertContains(ran, "rank %d hears of the end".formatted(rank));
    }
  }
}
