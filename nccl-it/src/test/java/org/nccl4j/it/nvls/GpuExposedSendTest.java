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
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.it.api.NetPluginLibrary;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;

/** Sends and receives between GPUs of two machines from and into registered buffers. */
@Timeout(600)
class GpuExposedSendTest {
  @TempDir static Path folder;
  private static FakeGpuProcess program;

  @BeforeAll
  static void buildTheFake() throws Exception {
    program = FakeGpuProcess.in(folder);
  }

  private static Ran run(String mode, Map<String, String> more) throws Exception {
    Map<String, String> settings = new HashMap<>(FakeCards.settings(folder));
    settings.put("NCCL_DEBUG", "INFO");
    settings.put("NCCL_NCHANNELS_PER_NET_PEER", "2");
    settings.putAll(more);
    Ran ran = program.run(settings, ExposedSends.class, mode);
    assertEquals(0, ran.calls().stream().filter(call -> call.contains("misuse")).count());
    assertTrue(ran.output().contains("rank 0 has all"), ran.output());
    assertTrue(ran.output().contains("rank 1 has all"), ran.output());
    assertEquals(0, number(ran, "left "), ran.output());
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

  /** The card learns each buffer once, whatever the number of channels. */
  @ParameterizedTest
  @CsvSource({
    "both, true, true, 4",
    "windows, true, true, 4",
    "senders, true, false, 2",
    "receivers, false, true, 2",
    "neither, false, false, 0"
  })
  void eachEndUsesItsBufferIfThatIsRegistered(
      String mode, boolean exposes, boolean places, int registrations) throws Exception {
    Ran ran = run(mode, Map.of());
    assertEquals(exposes, number(ran, "exposed ") > 0, ran.output());
    assertEquals(places, number(ran, "placed ") > 0, ran.output());
    assertEquals(registrations, dmaBufsOfUsers(ran), ran.output());
    assertTrue(number(ran, "flushes ") >= number(ran, "placed "), "what is placed is flushed");
    assertEquals(0, ran.warnings(), ran.output());
    assertTrue(ran.output().contains("directly (by dma-buf, the path is PIX)"), ran.output());
  }

  /** On so many channels steps come to buffers only as they happen to be in time. */
  @ParameterizedTest
  @ValueSource(ints = {7, 32})
  void messagesOfFewStepsOnEachChannelArrive(int channels) throws Exception {
    Ran ran = run("both", Map.of("NCCL_NCHANNELS_PER_NET_PEER", Integer.toString(channels)));
    assertTrue(number(ran, "exposed ") > 0, ran.output());
    assertEquals(0, ran.warnings(), ran.output());
  }

  /** Slots are in the host's memory then, and are not flushed. */
  @Test
  void buffersAreUsedWhereTheDriverHasNoMemoryForSlots() throws Exception {
    Ran ran = run("both", Map.of("FAKECUDA_LACKS", "141"));
    assertTrue(number(ran, "exposed ") > 0 && number(ran, "placed ") > 0, ran.output());
    assertEquals(number(ran, "placed "), number(ran, "flushes "), ran.output());
  }

  /** A registration that ends is forgotten by the cards. */
  @Test
  void buffersThatAreRegisteredAgainAreUsedAgain() throws Exception {
    Ran ran = run("again", Map.of());
    assertTrue(number(ran, "exposed ") > 0 && number(ran, "placed ") > 0, ran.output());
    assertEquals(12 * 4, dmaBufsOfUsers(ran), ran.output());
  }

  @Test
  void whatABrokenQueuePairHasLeftIsRetransmissions() throws Exception {
    Ran ran = run("broken", Map.of());
    assertTrue(ran.output().contains("has taken over after"), ran.output());
    assertTrue(number(ran, "exposed ") > 0 && number(ran, "placed ") > 0, ran.output());
  }

  /** The first steps are copied by the proxy; from then on kernels use slots. */
  @ParameterizedTest
  @CsvSource({"0, 0", "141, 0"})
  void aCardThatRefusesUsersMemoryLeavesSlotsAndSaysWhy(String lacks, int placed) throws Exception {
    Ran ran = run("refused", Map.of("FAKECUDA_LACKS", lacks));
    assertTrue(ran.output().contains("go through slots of the host's memory"), ran.output());
    assertEquals(placed, number(ran, "placed "), ran.output());
    assertTrue(number(ran, "exposed ") > 0, "before the card refused");
    assertTrue(number(ran, "exposed ") < number(ran, "slots ") / 2, ran.output());
  }

  @ParameterizedTest
  @CsvSource({"NCCL4J_NET_ZERO_COPY, off", "NCCL_NET_GDR_LEVEL, LOC", "NCCL_DMABUF_ENABLE, 0"})
  void settingsKeepUsersMemoryFromCards(String name, String value) throws Exception {
    Ran ran = run("both", Map.of(name, value));
    assertEquals(0, number(ran, "exposed ") + number(ran, "placed "), ran.output());
    assertEquals(0, dmaBufsOfUsers(ran), ran.output());
  }

  /** Receives through a plug-in cannot be moved: those that begin late enough are in the buffer. */
  @Test
  void pluginsForNcclTakeUsersMemoryToo() throws Exception {
    String plugin =
        NetPluginLibrary.build(folder, 9, "exposed", "-DPOINTERS=5", "-DDEVICE=\"roce0\"");
    Ran ran = run("both", Map.of("NCCL_NET", "Plugin", "NCCL_NET_PLUGIN", plugin));
    assertTrue(number(ran, "exposed ") > 0, ran.output());
    assertTrue(number(ran, "placed ") > 0, ran.output());
    assertEquals(0, ran.warnings(), ran.output());
  }
}
