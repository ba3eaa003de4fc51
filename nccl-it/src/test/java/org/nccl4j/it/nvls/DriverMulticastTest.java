package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.time.Duration;
import java.time.Instant;
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
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.it.cli.Main;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;

/**
 * A whole communicator's driver calls for NVLS, in a process of its own with the recording fake in
 * the driver's place: two ranks, each on a fake GPU.
 */
@Timeout(600)
class DriverMulticastTest {
  @TempDir static Path folder;
  private static FakeGpuProcess program;

  /** Runs that several tests look at, by their settings. */
  private static final Map<Map<String, String>, Ran> SHARED = new HashMap<>();

  @BeforeAll
  static void buildTheFake() throws Exception {
    program = FakeGpuProcess.in(folder);
  }

  private static Ran run(Map<String, String> settings) throws Exception {
    return program.run(settings, FakeGpuRanks.class);
  }

  /** A run with settings that another test has too, which may have run already. */
  private static Ran shared(Map<String, String> settings) throws Exception {
    Ran ran = SHARED.get(settings);
    if (ran == null) {
      ran = run(settings);
      SHARED.put(settings, ran);
    }
    return ran;
  }

  /** NCCL_NVLS_ENABLE=0 in all spellings wins over all other settings. */
  @ParameterizedTest
  @CsvSource({"auto, 0", "hardware, 0", "hardware, 00"})
  void whereItIsForbiddenNoMulticastFunctionIsCalled(String mode, String nought) throws Exception {
    Ran ran =
        run(Map.of("NCCL_ALGO", "NVLS", "NCCL4J_NVLS_MODE", mode, "NCCL_NVLS_ENABLE", nought));
    assertTrue(ran.output().contains("without NVLS"), ran.output());
    assertTrue(ran.output().contains("NCCL_NVLS_ENABLE=0 forbids"), ran.output());
    assertEquals(1, ran.warnings(), ran.output());
    assertTrue(ran.count("cuMemCreate") > 0, "the fake was there");
    assertEquals(0, ran.calls().stream().filter(call -> call.contains("Multicast")).count());
  }

  @Test
  void theEmulationCallsNoMulticastFunction() throws Exception {
    Ran ran = run(Map.of("NCCL4J_NVLS_MODE", "emulated", "NCCL_NVLS_ENABLE", "0"));
    assertTrue(ran.output().contains("with NVLS"), ran.output());
    assertEquals(0, ran.calls().stream().filter(call -> call.contains("Multicast")).count());
  }

  /** Blocks as they are set, within what an operation may take; whole lines of bytes. */
  @ParameterizedTest
  @CsvSource({
    "hardware, 0, 0, 1, 64, '16 channels, chunks of 131072 bytes'",
    "emulated, 0, 0, 1, 64, '64 channels, chunks of 32768 bytes'",
    "hardware, 7, 5000, 1, 64, '7 channels, chunks of 5120 bytes'",
    "emulated, 0, 512, 1, 5, '5 channels, chunks of 512 bytes'",
    "hardware, 20, 512, 1, 18, '18 channels, chunks of 512 bytes'",
    "hardware, 0, 512, 20, 64, '20 channels, chunks of 512 bytes'",
  })
  void blocksAndChunksAreAsTheyAreSet(
      String mode, String blocks, String chunk, String fewest, String most, String laidOut)
      throws Exception {
    Ran ran =
        run(
            Map.of(
                "NCCL4J_NVLS_MODE",
                mode,
                "NCCL_NVLS_NCHANNELS",
                blocks,
                "NCCL_NVLS_CHUNKSIZE",
                chunk,
                "NCCL_MIN_CTAS",
                fewest,
                "NCCL_MAX_CTAS",
                most,
                "NCCL_DEBUG",
                "INFO"));
    assertTrue(ran.output().contains("heads [0, 1], " + laidOut), ran.output());
  }

  /** Half of a small GPU, and few blocks by NCCL_CTA_POLICY. */
  @ParameterizedTest
  @CsvSource({
    "emulated, 0, 0, 75:40:1024, 20",
    "emulated, 0, 1, 90:132:2048, 24",
    "hardware, 32, 1, 90:132:2048, 24",
    "hardware, 32, 0, 90:132:2048, 32",
  })
  void blocksAreWithinThePolicyAndTheRoom(
      String mode, String blocks, String policy, String gpu, int channels) throws Exception {
    Ran ran =
        run(
            Map.of(
                "NCCL4J_NVLS_MODE",
                mode,
                "NCCL_NVLS_NCHANNELS",
                blocks,
                "NCCL_CTA_POLICY",
                policy,
                "FAKECUDA_GPU",
                gpu,
                "NCCL_DEBUG",
                "INFO"));
    assertTrue(ran.output().contains("heads [0, 1], " + channels + " channels"), ran.output());
  }

  /** Two GPUs, GPUs without an NVSwitch, and GPUs of which one has no multicast objects. */
  @ParameterizedTest
  @CsvSource({
    "2, true, '', there are fewer than 3 ranks",
    "3, false, '', the topology shows no NVSwitch",
    "3, true, MULTICAST_SUPPORTED, rank 0: ",
  })
  void machinesWithoutItHaveNoneByDefault(int gpus, boolean hasSwitch, String lacks, String reason)
      throws Exception {
    Map<String, String> settings = new HashMap<>(switched(gpus, hasSwitch));
    settings.put("NCCL_DEBUG", "INFO");
    if (!lacks.isEmpty()) {
      settings.put("FAKECUDA_LACKS", "132"); // CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED
    }
    Ran ran = run(settings);
    assertTrue(ran.output().contains("without NVLS"), ran.output());
    assertTrue(ran.output().contains("NVLink SHARP is not used, because " + reason), ran.output());
    assertEquals(0, ran.warnings(), ran.output());
    assertEquals(0, ran.calls().stream().filter(call -> call.contains("Multicast")).count());
  }

  /** One line of the examination of a machine; forbidden, without a question to the driver. */
  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "3 | true | NCCL_NVLS_ENABLE=2 | used where it is the fastest | all ranks have it: by the switch, heads [0, 1, 2], 16 channels",
        "3 | false | NCCL_NVLS_ENABLE=2 | not used | the topology shows no NVSwitch",
        "3 | false | NCCL_NVLS_ENABLE=1 | used where it is the fastest | a setting asks for it",
        "2 | true | NCCL_NVLS_ENABLE=2 | not used | there are fewer than 3 ranks",
        "2 | true | NCCL4J_NVLS_MODE=hardware | used where it is the fastest | a setting asks for it",
        "3 | true | NCCL_ALGO=Ring | not used | rank 0: NCCL_ALGO leaves NVLS out",
        "3 | true | NCCL4J_NVLS_MODE=off | not used | rank 0: NCCL4J_NVLS_MODE is off",
        "3 | true | FAKECUDA_LACKS=132 | not used | rank 0: ",
        "3 | true | NCCL_NVLS_ENABLE=0 | not used | rank 0: NCCL_NVLS_ENABLE=0 forbids",
        "1 | true | NCCL_NVLS_ENABLE=2 | not used | there is one rank",
      })
  void theDoctorSaysWhetherACommunicatorUsesIt(
      int gpus, boolean hasSwitch, String setting, String use, String reason) throws Exception {
    Map<String, String> settings = new HashMap<>(switched(gpus, hasSwitch));
    settings.put(setting.split("=")[0], setting.split("=")[1]);
    String says = " by a rank on each of %d GPUs, because ".formatted(gpus);
    Ran ran = program.start(settings, Main.class, "doctor").end();
    assertTrue(ran.output().contains("NVLink SHARP: " + use + says + reason), ran.output());
    assertEquals(0, multicast(ran.calls()));
  }

  /** A machine of GPUs with 18 links each, to a switch or to each other. */
  private static Map<String, String> switched(int gpus, boolean hasSwitch) throws Exception {
    return switched(folder, gpus, hasSwitch);
  }

  /**
   * The same.
   *
   * @param folder of its file
   */
  static Map<String, String> switched(Path folder, int gpus, boolean hasSwitch) throws Exception {
    StringBuilder machine = new StringBuilder("<system version=\"1\">\n<cpu numaid=\"0\"");
    machine.append(" arch=\"x86_64\" vendor=\"AuthenticAMD\">\n");
    for (int gpu = 0; gpu < gpus; gpu++) {
      machine.append(
          "<pci busid=\"0000:%02x:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\""
                  .formatted(10 + gpu)
              + " link_width=\"16\"><gpu dev=\"%d\" sm=\"90\" rank=\"%d\" gdr=\"1\">"
                  .formatted(gpu, gpu));
      for (int other = 0; other < gpus && !hasSwitch; other++) {
        if (other != gpu) {
          machine.append(
              "<nvlink target=\"0000:%02x:00.0\" count=\"6\" tclass=\"0x030200\"/>"
                  .formatted(10 + other));
        }
      }
      machine.append(
          hasSwitch
              ? "<nvlink target=\"0000:20:00.0\" count=\"18\" tclass=\"0x068000\"/></gpu></pci>\n"
              : "</gpu></pci>\n");
    }
    Path file = Files.createTempFile(folder, "machine", ".xml");
    Files.writeString(file, machine + "</cpu>\n</system>\n");
    return Map.of("NCCL_TOPO_FILE", file.toString(), "FAKECUDA_DEVICES", Integer.toString(gpus));
  }

  /** Runs a group of all-reduces by one thread for all ranks, large and captured ones too. */
  private static Ran large(Map<String, String> settings) throws Exception {
    Map<String, String> all = new HashMap<>(switched(4, true));
    all.put("JAVA_TOOL_OPTIONS", "-Dnccl4j.also=large");
    all.put("NCCL_DEBUG", "INFO");
    all.putAll(settings);
    return run(all);
  }

  /** The number of kernels by slots, of nvls::kThreads. */
  private static long launches(Ran ran) {
    return ran.calls().stream()
        .filter(call -> call.startsWith("cuLaunchKernelEx(") && call.contains(",640,"))
        .count();
  }

  private static long multicast(List<String> calls) {
    return calls.stream().filter(call -> call.contains("Multicast")).count();
  }

  /** By default on a machine with a switch: by the first operation that it is the cheapest for. */
  @Test
  void theFirstLargeAllReduceMakesIt() throws Exception {
    Ran ran = large(Map.of());
    assertTrue(ran.output().contains("NVLink SHARP is used, because"), ran.output());
    assertEquals(0, ran.warnings(), ran.output());
    int made = ran.calls().indexOf("cuMemAlloc_v2(" + FakeGpuRanks.MARK_BYTES + ")");
    assertEquals(0, multicast(ran.calls().subList(0, made)), "small operations ran before");
    assertEquals(1, ran.count("cuMulticastCreate"));
    assertEquals(4, ran.count("cuMulticastBindMem"));
    assertEquals(4, ran.count("cuMulticastUnbind"));
    assertEquals(0, ran.count("misuse"), ran.calls().toString());
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    assertEquals(2 * 4, launches(ran), "two operations of four ranks");
  }

  /** The fake's kernels compute nothing, as a broken switch would: nobody uses it. */
  @ParameterizedTest
  @CsvSource({"operation", "creation"})
  void aSwitchWithWrongSumsIsOneWarning(String create) throws Exception {
    Ran ran = large(Map.of("NCCL4J_NVLS_TEST", "1", "NCCL4J_NVLS_CREATE", create));
    assertEquals(1, ran.warnings(), ran.output());
    assertTrue(
        ran.output()
            .contains(
                "NVLink SHARP is not used, because rank 0 cannot have right results of its"
                    + " multicast object: byte 4 of the sum of int32 is 0x00 instead of"),
        ran.output());
    assertEquals(4, ran.count("bound"));
    assertEquals(4, ran.count("unbound"));
    assertEquals(0, ran.count("misuse"), ran.calls().toString());
    assertEquals(0, launches(ran));
  }

  /** A capture may be the first that takes it: the threads that make it are not captured. */
  @Test
  void aCaptureMayBeTheFirstToTakeIt() throws Exception {
    Ran ran = large(Map.of("JAVA_TOOL_OPTIONS", "-Dnccl4j.also=large -Dnccl4j.captured=true"));
    assertTrue(ran.output().contains("captured 4 graphs"), ran.output());
    assertTrue(ran.output().contains("NVLink SHARP is used, because"), ran.output());
    assertEquals(0, ran.count("misuse"), ran.calls().toString());
    assertEquals(4, ran.count("cuMulticastBindMem"));
  }

  /**
   * Windows of before are bound when the object is made, those of afterwards when they are
   * registered; operations in them go in place.
   */
  @Test
  void windowsAreBoundWhereTheObjectIsMadeLate() throws Exception {
    Ran ran = large(Map.of("JAVA_TOOL_OPTIONS", "-Dnccl4j.also=large -Dnccl4j.windows=true"));
    assertTrue(ran.output().contains("NVLink SHARP is used, because"), ran.output());
    assertEquals(0, ran.warnings(), ran.output());
    assertEquals(0, ran.count("misuse"), ran.calls().toString());
    int made = ran.calls().indexOf("cuMemAlloc_v2(" + FakeGpuRanks.MARK_BYTES + ")");
    assertEquals(0, multicast(ran.calls().subList(0, made)), "windows alone make nothing");
    assertEquals(1 + 2, ran.count("cuMulticastCreate"));
    assertEquals(4, ran.count("cuMulticastBindMem"));
    assertEquals(2 * 4, ran.count("cuMulticastBindAddr"));
    assertEquals(3 * 4, ran.count("cuMulticastUnbind"));
    assertEquals(
        2,
        ran.output().lines().filter("multimem true, in the handle too"::equals).count(),
        ran.output());
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    assertTrue(ran.calls().contains("cuModuleGetFunction(nccl4j_nvls_window_driver)"));
    assertEquals(0, launches(ran), "none by slots");
  }

  /** In place only buffers that lie alike in packs are fast. */
  @ParameterizedTest
  @CsvSource({"16, true", "4, false"})
  void buffersThatLieDifferentlyGoByOtherAlgorithms(int skew, boolean inPlace) throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    String large = "-Dnccl4j.also=large -Dnccl4j.windows=true -Dnccl4j.skew=";
    Ran ran = large(Map.of("JAVA_TOOL_OPTIONS", large + skew));
    assertTrue(ran.output().contains("NVLink SHARP is used, because"), ran.output());
    assertEquals(inPlace ? 0 : 2 * 4, launches(ran), "through slots");
    assertEquals(0, ran.warnings(), ran.output());
    assertEquals(0, ran.count("misuse"), ran.calls().toString());
  }

  /** They work without where the driver does not take them. */
  @Test
  void windowsThatCannotBeBoundLateAreOneWarning() throws Exception {
    Ran ran =
        large(
            Map.of(
                "JAVA_TOOL_OPTIONS",
                "-Dnccl4j.also=large -Dnccl4j.windows=true",
                "FAKECUDA_FAIL",
                "cuMulticastBindAddr:2"));
    assertEquals(1, ran.warnings(), ran.output());
    assertTrue(ran.output().contains("do not use NVLS: rank 0 cannot "), ran.output());
    assertTrue(ran.output().contains("multimem false, in the handle too"), ran.output());
    assertEquals(4, ran.count("bound"), "its own buffers alone");
    assertEquals(4, ran.count("unbound"));
    assertEquals(0, ran.count("misuse"), ran.calls().toString());
  }

  /** Splits have connections of their own, and NVLS, unless they are to share. */
  @Test
  void aSplitKeepsIt() throws Exception {
    Map<String, String> settings = new HashMap<>(switched(4, true));
    settings.put("JAVA_TOOL_OPTIONS", "-Dnccl4j.also=splits");
    settings.put("NCCL_DEBUG", "INFO");
    Ran ran = run(settings);
    long able =
        ran.output()
            .lines()
            .filter(line -> line.matches(".*rank 0 of communicator .*: NVLink SHARP may be used.*"))
            .count();
    // The first one, the parent, a split that does not share, one by default, and a split of that.
    assertTrue(able >= 5, ran.output());
    assertEquals(0, multicast(ran.calls()), "nothing is made before an operation takes it");
  }

  /** Two ranks use NVLS only if somebody asks for it. */
  @ParameterizedTest
  @CsvSource({"2, 0", "1, 1"})
  void aSplitIntoPairsSharesUnlessPairsUseIt(int enable, int own) throws Exception {
    Map<String, String> settings = new HashMap<>(switched(4, true));
    settings.put("JAVA_TOOL_OPTIONS", "-Dnccl4j.also=pairs");
    settings.put("NCCL_NVLS_ENABLE", Integer.toString(enable));
    settings.put("NCCL_DEBUG", "INFO");
    Ran ran = run(settings);
    String line = ran.output().lines().filter(l -> l.startsWith("a pair holds ")).findFirst().get();
    assertEquals(own == 1, !line.equals("a pair holds 0 bytes"), ran.output());
    assertEquals(
        own == 1,
        ran.output().contains("have their own connections: on rank 0 it has NVLS"),
        ran.output());
    assertEquals(0, ran.warnings(), ran.output());
  }

  /** By switches of GPUs from 10.0 on, whose kernels are loaded with the communicator. */
  @ParameterizedTest
  @CsvSource({"90, false", "100, true", "103, true"})
  void floatsOf8BitsTakeItWhereTheSwitchCombinesThem(int capability, boolean has) throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    Ran ran =
        run(
            Map.of(
                "NCCL_ALGO",
                "NVLS",
                "FAKECUDA_GPU",
                capability + ":132:2048",
                "JAVA_TOOL_OPTIONS",
                "-Dnccl4j.type=FLOAT8_E4M3"));
    assertEquals(has, ran.output().contains("chosen: NVLS Simple"), ran.output());
    assertEquals(0, ran.warnings(), ran.output());
    assertEquals(0, ran.count("misuse"), ran.calls().toString());
  }

  /** The least granules, although the driver recommends larger ones. */
  @Test
  void memoryIsAsSmallAsTheGranularityAllows() throws Exception {
    Ran ran =
        run(
            Map.of(
                "NCCL4J_NVLS_MODE",
                "hardware",
                "NCCL_NVLS_NCHANNELS",
                "1",
                "NCCL_NVLS_CHUNKSIZE",
                "512"));
    assertTrue(ran.calls().contains("cuMulticastCreate(2,2097152,1,0)"), ran.calls().toString());
    assertTrue(ran.calls().contains("cuMulticastBindMem(0,0,2097152,0)"), ran.calls().toString());
  }

  private static Ran timed(String elapsed, String cache, String... more) throws Exception {
    Map<String, String> all = new HashMap<>();
    all.put("NCCL4J_PROBE", "1");
    all.put("FAKECUDA_ELAPSED", elapsed);
    all.put("XDG_CACHE_HOME", folder.resolve(cache).toString());
    for (int s = 0; s < more.length; s += 2) {
      all.put(more[s], more[s + 1]);
    }
    return large(all);
  }

  /** The measurements of four ranks, each with three short and three long ones. */
  private static long measurements(Ran ran) {
    return ran.calls().stream()
        .filter(call -> call.startsWith("cuLaunchKernelEx(16,1,1,256,"))
        .count();
  }

  /** The speed is measured once; the next communicator on such a machine knows it. */
  @Test
  void theSwitchIsTimedBeforeItsFirstUse() throws Exception {
    Ran first = timed("0.5", "fast");
    assertTrue(
        first.output().matches("(?s).*NVLink SHARP is used, because .*, at 1\\d{3} GB/s.*"),
        first.output());
    assertEquals(0, first.warnings(), first.output());
    assertEquals(6 * 4, measurements(first), first.calls().toString());
    assertEquals(2 * 4, launches(first), "two operations of four ranks");
    Ran second = timed("0.5", "fast");
    assertTrue(second.output().contains("NVLink SHARP is used, because"), second.output());
    assertTrue(second.output().contains("by the switch, measured at 1"), second.output());
    assertEquals(0, measurements(second));
    assertEquals(2 * 4, launches(second), "two operations of four ranks");
  }

  private static Path kept(String cache) {
    return folder.resolve(cache).resolve("nccl4j");
  }

  /**
   * Slower than the other algorithms, it is off, with one line. Once it has been slower in another
   * process too, it is not even made.
   */
  @Test
  void aSlowSwitchIsOff() throws Exception {
    Ran busy = timed("50", "slow");
    assertTrue(busy.output().contains("so a later process measures again"), busy.output());
    assertEquals(1, busy.warnings(), busy.output());
    FileTime before = FileTime.from(Instant.now().minus(Duration.ofHours(1)));
    try (Stream<Path> files = Files.list(kept("slow"))) {
      for (Path file : files.toList()) {
        Files.setLastModifiedTime(file, before);
      }
    }
    Ran first = timed("50", "slow");
    assertEquals(6 * 4, measurements(first), first.calls().toString());
    assertTrue(first.output().contains(". Delete " + kept("slow")), first.output());
    String line = "NVLink SHARP is not used, because it is slower than the other algorithms";
    assertEquals(
        1, first.output().lines().filter(each -> each.contains(line)).count(), first.output());
    assertEquals(1, first.warnings(), first.output());
    assertEquals(4, first.count("bound"));
    assertEquals(4, first.count("unbound"));
    assertEquals(0, launches(first));
    assertEquals(0, first.count("misuse"), first.calls().toString());
    Ran second = timed("50", "slow");
    assertEquals(
        1, second.output().lines().filter(each -> each.contains(line)).count(), second.output());
    assertTrue(second.output().contains(". Delete " + kept("slow")), second.output());
    assertEquals(0, multicast(second.calls()));
    assertEquals(0, second.warnings(), second.output());
    Map<String, String> settings = new HashMap<>(switched(4, true));
    settings.put("NCCL4J_PROBE", "1");
    settings.put("XDG_CACHE_HOME", folder.resolve("slow").toString());
    Ran doctor = program.start(settings, Main.class, "doctor").end();
    assertTrue(
        doctor
            .output()
            .contains(
                "NVLink SHARP: not used by a rank on each of 4 GPUs, because it is slower than the"
                    + " other algorithms"),
        doctor.output());
    assertEquals(0, multicast(doctor.calls()));
  }

  @Test
  void aSwitchThatCannotBeTimedIsOneWarning() throws Exception {
    Ran ran = timed("0.5", "failing", "FAKECUDA_FAIL", "cuEventElapsedTime:700");
    assertEquals(1, ran.warnings(), ran.output());
    assertTrue(
        ran.output()
            .contains(
                "NVLink SHARP is not used, because rank 0 cannot try the speed of its multicast"
                    + " object: cuEventElapsedTime"),
        ran.output());
    assertEquals(4, ran.count("unbound"));
    assertEquals(0, launches(ran));
  }

  /** NCCL_NVLS_ENABLE=0 keeps every call away from an operation that would make it, too. */
  @ParameterizedTest
  @CsvSource({"auto, 0", "hardware, 0", "auto, 00"})
  void whereItIsForbiddenNoOperationMakesIt(String mode, String nought) throws Exception {
    Ran ran =
        large(
            Map.of(
                "NCCL_NVLS_ENABLE",
                nought,
                "NCCL4J_NVLS_MODE",
                mode,
                "NCCL4J_NVLS_CREATE",
                "operation",
                "JAVA_TOOL_OPTIONS",
                "-Dnccl4j.also=large -Dnccl4j.windows=true",
                "NCCL4J_PROBE",
                "1",
                "XDG_CACHE_HOME",
                folder.resolve("forbidden").toString()));
    assertTrue(ran.output().contains("NCCL_NVLS_ENABLE=0 forbids"), ran.output());
    assertEquals(0, measurements(ran));
    assertTrue(ran.count("cuLaunchKernelEx") > 0, "operations ran");
    assertEquals(0, multicast(ran.calls()));
  }

  /** One rank's refusal at the first operation turns it off on all, in one line. */
  @ParameterizedTest
  @CsvSource({
    "cuMulticastCreate:2",
    "cuMulticastAddDevice:2:3",
    "cuMulticastBindMem:2:4",
  })
  void aRefusalAtTheOperationIsOneWarning(String fail) throws Exception {
    Ran ran = large(Map.of("FAKECUDA_FAIL", fail));
    assertEquals(1, ran.warnings(), ran.output());
    assertTrue(ran.output().contains("NVLink SHARP is not used, because rank "), ran.output());
    assertTrue(ran.output().contains(fail.substring(0, fail.indexOf(':'))), ran.output());
    assertEquals(ran.count("bound"), ran.count("unbound"));
    assertEquals(0, ran.count("misuse"), ran.calls().toString());
    assertEquals(0, launches(ran));
  }

  @Test
  void whereItIsAskedForAnObjectIsMadeOfAllRanksAndUndone() throws Exception {
    Ran ran = shared(Map.of("NCCL4J_NVLS_MODE", "hardware"));
    assertTrue(ran.output().contains("with NVLS"), ran.output());
    assertEquals(1, ran.count("cuMulticastCreate"));
    assertEquals(2, ran.count("cuMulticastAddDevice"));
    assertEquals(2, ran.count("cuMulticastBindMem"));
    assertEquals(2, ran.count("cuMulticastUnbind"));
    assertEquals(0, ran.count("misuse"), ran.calls().toString());
    assertEquals(0, ran.warnings(), ran.output());
  }

  /** A switch whose memory is gone would fail the kernels of who still works. */
  @Test
  void nothingIsUndoneBeforeTheLastRankCloses() throws Exception {
    Ran ran = shared(Map.of("NCCL4J_NVLS_MODE", "hardware"));
    String mark = "cuMemAlloc_v2(" + FakeGpuRanks.MARK_BYTES + ")";
    int last = -1;
    int firstUndone = Integer.MAX_VALUE;
    for (int call = 0; call < ran.calls().size(); call++) {
      String name = ran.calls().get(call);
      if (name.startsWith(mark)) {
        last = call;
      } else if (name.startsWith("cuMulticastUnbind(")) {
        firstUndone = Math.min(firstUndone, call);
      }
    }
    assertEquals(2, ran.calls().stream().filter(call -> call.startsWith(mark)).count());
    assertTrue(last < firstUndone, "unbound at " + firstUndone + ", last close at " + last);
  }

  /** Slots of the switch that are all taken, say: the communicator is made without NVLS. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "cuMulticastGetGranularity",
        "cuMulticastCreate",
        "cuMulticastAddDevice",
        "cuMulticastBindMem",
      })
  void aRefusalOfTheDriverIsOneWarningThatNamesTheCall(String call) throws Exception {
    Ran ran = run(Map.of("NCCL_ALGO", "NVLS", "FAKECUDA_FAIL", call + ":2"));
    assertTrue(ran.output().contains("without NVLS"), ran.output());
    assertEquals(1, ran.warnings(), ran.output());
    assertTrue(ran.output().contains("rank 0 cannot "), ran.output());
    assertTrue(ran.output().contains(call), ran.output());
    assertEquals(ran.count("bound"), ran.count("unbound"));
    assertEquals(0, ran.count("misuse"), ran.calls().toString());
  }

  /** Of the sharing of an object, and of its mapping, whose calls other memory needs too. */
  @ParameterizedTest
  @CsvSource({
    "cuMemExportToShareableHandle, rank 0",
    "cuMemImportFromShareableHandle, rank 1",
    "cuMemAddressReserve, rank 0",
    "cuMemMap, rank 0",
    "cuMemSetAccess, rank 0",
  })
  void whatFailsAfterTheCreationIsOneWarningToo(String call, String who) throws Exception {
    List<String> good = shared(Map.of("NCCL_ALGO", "NVLS")).calls();
    // The first that is the object's own: after its creation, or, where memory of its members is
    // mapped first, after the last of them is bound.
    String before = call.contains("Shareable") ? "cuMulticastCreate(" : "cuMulticastBindMem(";
    int begin = 0;
    for (int at = 0; at < good.size(); at++) {
      begin = good.get(at).startsWith(before) ? at : begin;
    }
    long earlier = good.subList(0, begin).stream().filter(c -> c.startsWith(call + "(")).count();
    Ran ran =
        run(Map.of("NCCL_ALGO", "NVLS", "FAKECUDA_FAIL", call + ":2:%d".formatted(earlier + 1)));
    assertTrue(ran.output().contains("without NVLS"), ran.output());
    assertEquals(1, ran.warnings(), ran.output());
    assertTrue(ran.output().contains(who + " cannot "), ran.output());
    assertTrue(ran.output().contains(call), ran.output());
    assertEquals(1, ran.count("cuMulticastCreate"));
    assertEquals(ran.count("bound"), ran.count("unbound"));
    assertEquals(0, ran.count("misuse"), ran.calls().toString());
  }

  /** The ranks go on without NVLS as they have agreed; what is left behind is told. */
  @Test
  void anUndoingThatFailsIsToldAndNobodysFailure() throws Exception {
    Ran ran =
        run(
            Map.of(
                "NCCL_ALGO",
                "NVLS",
                "FAKECUDA_FAIL",
                "cuMulticastBindMem:2:2,cuMulticastUnbind:700"));
    assertTrue(ran.output().contains("without NVLS"), ran.output());
    assertEquals(2, ran.warnings(), ran.output());
    assertTrue(ran.output().contains("could not undo its part"), ran.output());
    assertTrue(ran.output().contains("cuMulticastUnbind for CUDA device "), ran.output());
  }

  /**
   * A broken context fails every call: each rank's memory is freed, and the user sees the first.
   */
  @Test
  void aTeardownGoesOnWhereACallFails() throws Exception {
    Ran ran =
        program
            .start(
                Map.of("NCCL4J_NVLS_MODE", "hardware", "FAKECUDA_FAIL", "cuMulticastUnbind:700"),
                FakeGpuRanks.class)
            .end();
    assertEquals(1, ran.status(), ran.output());
    assertTrue(ran.output().contains("CudaException: cuMulticastUnbind"), ran.output());
    assertEquals(2, ran.count("cuMulticastUnbind"), "each rank's");
    assertEquals(ran.count("cuMemMap"), ran.count("cuMemUnmap"), ran.calls().toString());
    assertEquals(ran.count("cuMemAddressReserve"), ran.count("cuMemAddressFree"));
    assertEquals(ran.count("cuMemAlloc_v2"), ran.count("cuMemFree_v2"));
  }

  /** Once for an allocation, whichever windows lie in it; and never where it is forbidden. */
  @Test
  void windowsAreBoundInPlaceUntilAllRanksHaveDroppedThem() throws Exception {
    Ran ran = also("windows", "NCCL4J_NVLS_MODE", "hardware");
    assertEquals(0, ran.count("misuse"), ran.calls().toString());
    assertEquals(0, ran.warnings(), ran.output());
    // The library's own window and two allocations, on two ranks.
    assertEquals(2 * 3, ran.count("cuMulticastBindAddr"), ran.calls().toString());
    assertEquals(2, ran.count("cuMulticastBindMem"));
    assertEquals(1 + 3, ran.count("cuMulticastCreate"));
    assertEquals(2 * 4, ran.count("cuMulticastUnbind"));
    assertTrue(ran.output().contains("multimem true, in the handle too"), ran.output());
    assertEquals(ran.count("cuMemAlloc_v2"), ran.count("cuMemFree_v2"), "handles of windows too");
    String mark = "cuMemAlloc_v2(" + FakeGpuRanks.MARK_BYTES + ")";
    List<Integer> marks = new ArrayList<>();
    List<Integer> unbound = new ArrayList<>();
    for (int call = 0; call < ran.calls().size(); call++) {
      if (ran.calls().get(call).equals(mark)) {
        marks.add(call);
      } else if (ran.calls().get(call).startsWith("unbound(")) {
        unbound.add(call);
      }
    }
    assertEquals(3, marks.size(), "one while a window is left, one before each rank closes");
    assertTrue(unbound.get(0) > marks.get(0), "one of two windows of an allocation is dropped");
    assertTrue(unbound.get(1) < marks.get(1), "the other is");
    assertTrue(unbound.get(2) > marks.get(2), "nothing goes before the last rank closes");
    assertEquals(ran.count("cuMemMap"), ran.count("cuMemUnmap"));
    assertEquals(ran.count("cuMemAddressReserve"), ran.count("cuMemAddressFree"));
  }

  @ParameterizedTest
  @CsvSource({"emulated, 0", "hardware, 0", "auto, 2"})
  void windowsCallNoMulticastFunctionWhereItIsForbiddenOrUnasked(String mode, String enable)
      throws Exception {
    Ran ran = also("windows", "NCCL4J_NVLS_MODE", mode, "NCCL_NVLS_ENABLE", enable);
    assertTrue(ran.count("cuMemMap") > 6, "windows were mapped");
    assertTrue(ran.output().contains("multimem false, in the handle too"), ran.output());
    assertEquals(0, ran.calls().stream().filter(call -> call.contains("Multicast")).count());
  }

  /** Slots that are all taken, or memory that the driver does not take: windows as without NVLS. */
  @ParameterizedTest
  @CsvSource({
    "FAKECUDA_FAIL, cuMulticastBindAddr:2, cuMulticastBindAddr",
    "FAKECUDA_MULTICAST_GRANULE, 16777216, which takes multiples of 16777216 bytes"
  })
  void windowsThatCannotBeBoundAreOneWarning(String how, String what, String reason)
      throws Exception {
    Ran ran = also("windows", "NCCL4J_NVLS_MODE", "hardware", how, what);
    assertEquals(1, ran.warnings(), ran.output());
    assertTrue(ran.output().contains("do not use NVLS: rank 0 cannot "), ran.output());
    assertTrue(ran.output().contains(reason), ran.output());
    assertTrue(ran.output().contains("with NVLS"), "the communicator has it");
    assertEquals(ran.count("bound"), ran.count("unbound"));
    assertEquals(2, ran.count("bound"), "its own buffers alone");
    assertEquals(0, ran.count("misuse"), ran.calls().toString());
  }

  /** As many blocks as a call's options, or the settings, allow. */
  @Test
  void limitsOfBlocksReachTheLaunch() throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    Ran ran = run(Map.of("JAVA_TOOL_OPTIONS", "-Dnccl4j.ctas=true"));
    List<Integer> blocks =
        ran.calls().stream()
            .filter(call -> call.startsWith("cuLaunchKernelEx("))
            .map(call -> Integer.valueOf(call.substring(17, call.indexOf(','))))
            .toList();
    assertEquals(List.of(3, 64, 1, 7), blocks.subList(1, 5), blocks.toString());
    assertTrue(ran.calls().stream().noneMatch(call -> call.contains("+4:")), "without clusters");
    Ran set =
        run(
            Map.of(
                "JAVA_TOOL_OPTIONS",
                "-Dnccl4j.ctas=true",
                "NCCL_MAX_CTAS",
                "5",
                "NCCL_CGA_CLUSTER_SIZE",
                "5"));
    assertTrue(
        set.calls().stream()
            .anyMatch(call -> call.startsWith("cuLaunchKernelEx(5,") && call.contains("4:5x1x1")),
        set.calls().toString());
  }

  @Test
  void freedMemoryIsRefusedWherePointersAreChecked() throws Exception {
    Ran ran =
        run(Map.of("JAVA_TOOL_OPTIONS", "-Dnccl4j.freed.memory=true", "NCCL_CHECK_POINTERS", "1"));
    String refused =
        ran.output().lines().filter(line -> line.startsWith("refused: ")).findFirst().orElse("");
    assertTrue(refused.contains("of the recv buffer the address 0x"), ran.output());
    assertTrue(refused.contains("is unknown to the CUDA driver"), refused);
    assertTrue(refused.contains("Remedy: wrap the address of memory"), refused);
    assertTrue(ran.count("cuPointerGetAttribute") > 0, "the driver was asked");
    assertEquals(0, ran.count("cuLaunchKernelEx"), "nothing was launched");
  }

  /** A suspension gives back all of a communicator's device memory. */
  @Test
  void suspendedCommunicatorsHoldNoDeviceMemory() throws Exception {
    Ran ran = run(Map.of("JAVA_TOOL_OPTIONS", "-Dnccl4j.suspensions=2"));
    assertEquals(2, ran.output().lines().filter(line -> line.equals("suspended with 0")).count());
    assertTrue(ran.output().lines().anyMatch(line -> line.matches("held [1-9].*")), ran.output());
    for (String[] pair :
        new String[][] {
          {"cuMemAlloc_v2", "cuMemFree_v2"},
          {"cuMemHostAlloc", "cuMemFreeHost"},
          {"cuMemAddressReserve", "cuMemAddressFree"},
          {"cuMemMap", "cuMemUnmap"},
          {"cuEventCreate", "cuEventDestroy_v2"}
        }) {
      assertEquals(ran.count(pair[0]), ran.count(pair[1]), pair[0] + " " + ran.calls());
    }
    assertTrue(ran.count("cuMemCreate") >= 2 * 3, "made anew each time");
    assertEquals(0, ran.warnings(), ran.output());
  }

  /** Of a GPU that nobody measured; by an algorithm that the topology's model does not have. */
  @Test
  void gpusArePlannedByTheTopologysCostModel() throws Exception {
    Ran ran = run(Map.of("NCCL_ALGO", "TwoShot"));
    assertTrue(ran.output().contains("NCCL's model on the topology: 2 GPUs"), ran.output());
    assertTrue(ran.output().contains("topology, NCCL's tables; not allowed by"), ran.output());
    assertTrue(ran.output().contains("chosen: TwoShot"), ran.output());
    assertEquals(0, ran.warnings(), ran.output());
  }

  private static Ran also(String what, String... settings) throws Exception {
    Map<String, String> all = new HashMap<>(Map.of("JAVA_TOOL_OPTIONS", "-Dnccl4j.also=" + what));
    for (int s = 0; s < settings.length; s += 2) {
      all.put(settings[s], settings[s + 1]);
    }
    return run(all);
  }

  @Test
  void aCommunicatorOfOneRankTakesNoDeviceMemory() throws Exception {
    Ran ran = also("alone");
    assertTrue(ran.output().contains("alone it holds 0 bytes"), ran.output());
    String mark = "cuMemAlloc_v2(" + FakeGpuRanks.MARK_BYTES + ")";
    int first = ran.calls().indexOf(mark);
    int second = first + 1 + ran.calls().subList(first + 1, ran.calls().size()).indexOf(mark);
    List<String> made =
        ran.calls().subList(first + 1, second).stream()
            .filter(call -> call.startsWith("cuMemAlloc_v2(") || call.startsWith("cuMemCreate("))
            .toList();
    assertEquals(List.of(), made);
    assertTrue(
        ran.calls().subList(first, second).stream()
            .anyMatch(c -> c.startsWith("cuLaunchKernelEx(")),
        "an operation was launched");
  }

  @Test
  void memoryThatEachRankRegistersIsMappedByAllAndUnmapped() throws Exception {
    Ran ran = also("registered");
    assertEquals(6, ran.output().lines().filter(line -> line.equals("mapped: true")).count());
    assertEquals(ran.count("cuMemMap"), ran.count("cuMemUnmap"), ran.calls().toString());
    assertEquals(ran.count("cuMemAddressReserve"), ran.count("cuMemAddressFree"));
    assertEquals(0, ran.warnings(), ran.output());
  }

  /** The driver allows no call in a function that a stream calls. */
  @Test
  void callsAreComparedWithoutTheDriver() throws Exception {
    Ran ran = also("compared");
    assertTrue(ran.output().contains("compared 40 calls"), ran.output());
    assertTrue(ran.count("cuLaunchHostFunc") >= 40, ran.output());
    assertEquals(0, ran.count("misuse"), ran.calls().toString());
  }

  /** One thread that drives several GPUs has others that launch, where there are processors. */
  @ParameterizedTest
  @ValueSource(ints = {1, 8})
  void aGroupOfSeveralGpusIsLaunchedByAThreadForEach(int processors) throws Exception {
    Ran ran =
        run(
            Map.of(
                "JAVA_TOOL_OPTIONS",
                "-Dnccl4j.also=driven -XX:ActiveProcessorCount=" + processors));
    assertTrue(ran.count("cuLaunchKernelEx") >= 206, ran.output());
    assertTrue(ran.output().contains("launching threads with per-thread streams: 0"), ran.output());
    assertTrue(ran.output().contains("captured 2 graphs"), ran.output());
    assertEquals(0, ran.count("misuse"), ran.calls().toString());
    String threads = processors == 8 ? "launching threads: 1" : "launching threads: 0";
    assertTrue(ran.output().contains(threads), ran.output());
    assertTrue(ran.output().contains("group: "), ran.output());
    assertTrue(ran.output().contains("was aborted by rank 1"), ran.output());
    assertTrue(ran.output().contains("at the end: 0"), ran.output());
  }

  /** Kernels of GPUs say for whom they wait only when they have given up: the calls tell. */
  @Test
  void conflictingOrdersAreNamedWhileKernelsWait() throws Exception {
    Ran ran = also("conflict", "FAKECUDA_HOLD", "1", "FAKECUDA_FAIL", "cuEventQuery:600");
    String error =
        ran.output().lines().filter(line -> line.startsWith("conflict: ")).findFirst().orElse("");
    assertTrue(error.contains("OrderMismatchException"), ran.output());
    assertTrue(error.matches(".*(weights and gradients|gradients and weights).*"), error);
    assertTrue(error.contains("are used in different orders"), error);
    assertTrue(error.contains("all_reduce of 16 float (sum) of rank 0 of weights"), error);
    assertTrue(error.contains("[NCCL4J-ORDER-DIFFERS]"), error);
  }
}
