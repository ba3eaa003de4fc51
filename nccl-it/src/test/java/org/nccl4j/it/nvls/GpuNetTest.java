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
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.UniqueId;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;
import org.nccl4j.it.nvls.FakeGpuProcess.Running;

/** GPUs that reach each other over a network, through pinned memory that proxies carry. */
@Timeout(300)
class GpuNetTest {
  private static final Map<String, String> ONLY_NET =
      Map.of("NCCL_P2P_DISABLE", "1", "NCCL_SHM_DISABLE", "1", "NCCL_SOCKET_IFNAME", "lo");
  private static final Pattern PINNED = Pattern.compile("cuMemHostRegister_v2\\((\\d+),.*");

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
  @ValueSource(ints = {1, 2, 4})
  void whatKernelsPutIntoSlotsArrivesAndNoChannelWaitsForAnother(int channels) throws Exception {
    Ran ran =
        program.run(
            Map.of("NCCL_NCHANNELS_PER_NET_PEER", Integer.toString(channels)),
            CarriedSlots.class,
            "exchange");
    assertContains(ran, "carried %d channels".formatted(channels));
    assertNothingIsLeft(ran);
  }

  @Test
  void aSlowNetworkThatReordersLosesNothing() throws Exception {
    Ran ran = program.run(Map.of(), CarriedSlots.class, "slow");
    assertContains(ran, "carried 2 channels");
    assertNothingIsLeft(ran);
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
    assertContains(ran, "through pinned memory and a network, 2 channels");
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
