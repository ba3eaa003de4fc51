package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.it.cli.Main;

/**
 * Probes of communicators on the fake driver's GPUs, which no table knows. Unless told otherwise,
 * its events are 1.5 ms apart.
 */
class GpuProbeTest {
  private static final Pattern EVERYTHING = Pattern.compile("has measured (\\d+) of \\1 times");

  @TempDir Path folder;
  @TempDir Path cache;
  private FakeGpuProcess process;

  @BeforeEach
  void build() throws Exception {
    process = FakeGpuProcess.in(folder);
  }

  private Map<String, String> settings() {
    Map<String, String> all = new HashMap<>();
    all.put("NCCL4J_PROBE", "1");
    all.put("FAKECUDA_NAME", "Fake GPU");
    all.put("NCCL_DEBUG", "INFO");
    all.put("NCCL_DEBUG_SUBSYS", "TUNING");
    all.put("XDG_CACHE_HOME", cache.toString());
    return all;
  }

  private FakeGpuProcess.Ran run(String... settings) throws Exception {
    Map<String, String> all = settings();
    for (int s = 0; s < settings.length; s += 2) {
      all.put(settings[s], settings[s + 1]);
    }
    return process.run(all, FakeGpuRanks.class);
  }

  /** Runs with enough time for every measurement, on a busy machine too. */
  private FakeGpuProcess.Ran measuringAll(String... settings) throws Exception {
    String[] all = Arrays.copyOf(settings, settings.length + 2);
    all[settings.length] = "NCCL4J_PROBE_TIME";
    all[settings.length + 1] = "60s";
    FakeGpuProcess.Ran ran = run(all);
    assertTrue(EVERYTHING.matcher(ran.output()).find(), ran.output());
    return ran;
  }

  private List<Path> files() throws IOException {
    Path kept = cache.resolve("nccl4j");
    if (!Files.isDirectory(kept)) {
      return List.of();
    }
    try (Stream<Path> files = Files.list(kept)) {
      return files.toList();
    }
  }

  private static boolean isProbed(FakeGpuProcess.Ran ran) {
    return ran.output().contains("measured, probe");
  }

  @Test
  void theFirstCreationMeasuresAndTheNextReads() throws Exception {
    FakeGpuProcess.Ran first = measuringAll();
    assertTrue(isProbed(first), first.output());
    assertTrue(first.output().contains("rank 0 of communicator 1 has measured"), first.output());
    assertEquals(0, first.warnings(), first.output());
    assertEquals(1, files().size());
    assertTrue(first.count("cuStreamWaitValue32_v2") > 0, "gates");
    List<String> kept = Files.readAllLines(files().get(0));
    FakeGpuProcess.Ran second = run();
    assertTrue(isProbed(second), second.output());
    assertEquals(0, launches(second));
    assertEquals(kept, Files.readAllLines(files().get(0)));
  }

  private static long launches(FakeGpuProcess.Ran ran) {
    return ran.count("cuLaunchKernelEx");
  }

  /** The first events, of two ranks and two rounds for each time, are twice as far apart. */
  @Test
  void timesOfBusyGpusAreNotKept() throws Exception {
    FakeGpuProcess.Ran ran = measuringAll("FAKECUDA_ELAPSED", "3,240,1.5");
    assertTrue(ran.output().contains("not kept, since two measurements"), ran.output());
    assertTrue(isProbed(ran), ran.output());
    assertEquals(List.of(), files());
    assertTrue(launches(run()) > 0, "measures again");
    assertEquals(1, files().size());
  }

  @Test
  void aDamagedResultIsMeasuredAgain() throws Exception {
    measuringAll();
    Path kept = files().get(0);
    String whole = Files.readString(kept);
    Files.writeString(kept, whole.substring(0, whole.length() / 2) + "x");
    FakeGpuProcess.Ran ran = measuringAll();
    assertTrue(ran.output().contains("ignores " + kept), ran.output());
    assertTrue(ran.output().contains("has measured"), ran.output());
    assertEquals(whole.lines().findFirst(), Files.readString(kept).lines().findFirst());
  }

  @Test
  void whereItIsOffNothingIsMeasured() throws Exception {
    FakeGpuProcess.Ran ran = run("NCCL4J_PROBE", "0");
    assertFalse(isProbed(ran), ran.output());
    assertEquals(0, launches(ran));
    assertEquals(List.of(), files());
  }

  @Test
  void theLibrarysTableIsReplacedOnlyWhereThatIsAsked() throws Exception {
    FakeGpuProcess.Ran table = run("FAKECUDA_NAME", "NVIDIA H200");
    assertFalse(isProbed(table), table.output());
    assertTrue(table.output().contains("nvidia-h200.costs"), table.output());
    FakeGpuProcess.Ran probe = run("FAKECUDA_NAME", "NVIDIA H200", "NCCL4J_PROBE", "2");
    assertTrue(isProbed(probe), probe.output());
    assertFalse(probe.output().contains("nvidia-h200.costs"), probe.output());
  }

  @Test
  void theUsersTableGoesFirst() throws Exception {
    Path table = folder.resolve("times");
    Files.write(
        table, List.of("device Fake GPU", "2 AllReduce Ring LL 1024:1 1048576:2 16777216:3"));
    FakeGpuProcess.Ran ran = run("NCCL4J_COSTS_FILE", table.toString(), "NCCL4J_PROBE", "2");
    assertFalse(isProbed(ran), ran.output());
    assertTrue(ran.output().contains("measured, " + table), ran.output());
    assertEquals(0, launches(ran));
  }

  /** With peer access: windows are measured too, and LL128, which needs NVLink, is not. */
  @Test
  void gpusJoinedByPcieAreMeasured() throws Exception {
    List<String> ways = List.of("DirectOneShot Simple", "OneShot LL");
    String[] pcie = {"FAKECUDA_PCIE", "1", "NCCL_P2P_LEVEL", "SYS"}; // on any maker's processors
    FakeGpuProcess.Ran ran = measuringAll(pcie);
    assertTrue(isProbed(ran), ran.output());
    assertEquals(0, ran.warnings(), ran.output());
    String kept = Files.readString(files().get(0));
    assertTrue(kept.lines().findFirst().orElseThrow().endsWith(" over P2P"), kept);
    for (String way : ways) {
      assertTrue(kept.contains("AllReduce " + way + " "), kept);
    }
    assertFalse(kept.contains("LL128"), kept);
    assertEquals(0, launches(run(pcie)));
  }

  /** Large sizes over PCIe take longer than a creation's 200 ms; here one is given 1 ms. */
  @Test
  void theNextCreationMeasuresWhatOneHadNoTimeFor() throws Exception {
    String[] pcie = {"FAKECUDA_PCIE", "1", "NCCL_P2P_LEVEL", "SYS", "NCCL4J_PROBE_TIME", "1ms"};
    FakeGpuProcess.Ran first = run(pcie);
    assertTrue(first.output().contains("the next creation measures the others"), first.output());
    assertTrue(isProbed(first), first.output());
    List<Path> unfinished = files();
    assertEquals(1, unfinished.size());
    pcie[5] = "60s";
    FakeGpuProcess.Ran second = run(pcie);
    assertTrue(EVERYTHING.matcher(second.output()).find(), second.output());
    assertTrue(second.output().contains(" of them earlier"), second.output());
    assertEquals(1, files().size());
    assertFalse(Files.exists(unfinished.get(0)), "the finished result replaces it");
    assertEquals(0, launches(run(pcie)));
  }

  /** Their data go through memory of the host, over connections. */
  @Test
  void instancesOfAGpuAreMeasuredOverConnections() throws Exception {
    List<String> ways = List.of("Ring LL", "Ring Simple", "Tree LL", "Tree Simple");
    FakeGpuProcess.Ran ran =
        measuringAll("FAKECUDA_MIG", "1", "FAKECUDA_NO_PEERS", "1", "FAKECUDA_GPU", "90:16:2048");
    assertTrue(isProbed(ran), ran.output());
    assertEquals(0, ran.warnings(), ran.output());
    assertTrue(ran.output().contains("over connections only"), ran.output());
    String kept = Files.readString(files().get(0));
    assertTrue(kept.lines().findFirst().orElseThrow().endsWith(" over SHM"), kept);
    for (String way : ways) {
      assertTrue(kept.contains("AllReduce " + way + " "), kept);
    }
    assertFalse(kept.contains("Direct") || kept.contains("Pairwise"), kept);
  }

  /** The same GPUs have other times over another transport. */
  @Test
  void transportsAreMeasuredApart() throws Exception {
    run();
    assertTrue(launches(run("NCCL_P2P_DISABLE", "1")) > 0);
    assertEquals(2, files().size());
  }

  @Test
  void whereNothingIsMeasuredTheLogSaysWhy() throws Exception {
    assertRefused("NCCL_CUMEM_ENABLE=0 leaves no windows", "NCCL_CUMEM_ENABLE", "0");
    assertRefused("the GPUs are of different models", "FAKECUDA_NAME", "");
    assertRefused("the library has a table of NVIDIA H200", "FAKECUDA_NAME", "NVIDIA H200");
    assertRefused("NCCL4J_PROBE=0 disables it", "NCCL4J_PROBE", "0");
    assertRefused("there is one GPU", "FAKECUDA_DEVICES", "1");
    assertEquals(List.of(), files());
  }

  private void assertRefused(String reason, String... settings) throws Exception {
    FakeGpuProcess.Ran ran = run(settings);
    assertEquals(0, launches(ran), reason);
    assertTrue(ran.output().contains("does not probe, because " + reason), ran.output());
  }

  /** A launch fails on one GPU; on the fake nobody waits for it. */
  @Test
  void aFailureIsOneWarningAndThePredictedTimesCount() throws Exception {
    FakeGpuProcess.Ran ran = run("FAKECUDA_FAIL", "cuStreamWaitValue32_v2:1");
    assertEquals(1, ran.warnings(), ran.output());
    assertTrue(ran.output().contains("WARNING: The probe of communicator 1"), ran.output());
    assertTrue(ran.output().contains("cuStreamWaitValue32 for"), ran.output());
    assertFalse(isProbed(ran), ran.output());
    assertEquals(List.of(), files());
  }

  @Test
  void aHomeThatCannotBeWrittenCostsNothingElse() throws Exception {
    Path file = Files.createFile(folder.resolve("file"));
    FakeGpuProcess.Ran ran = run("XDG_CACHE_HOME", file.toString());
    assertTrue(isProbed(ran), ran.output());
    assertTrue(ran.output().contains("cannot keep the probe's times"), ran.output());
    assertEquals(0, ran.warnings(), ran.output());
  }

  /** The doctor's line on costs; it makes no communicator. */
  private String doctor(String... settings) throws Exception {
    Map<String, String> all = settings();
    for (int s = 0; s < settings.length; s += 2) {
      all.put(settings[s], settings[s + 1]);
    }
    FakeGpuProcess.Ran ran = process.start(all, Main.class, "doctor").end();
    assertEquals(0, launches(ran));
    return ran.output()
        .lines()
        .filter(line -> line.matches("\\w+ +costs .*"))
        .reduce((one, other) -> one + " and " + other)
        .orElseThrow(() -> new AssertionError(ran.output()));
  }

  private void assertSays(String expected, String line) {
    assertTrue(line.contains("OK       costs          times of algorithms: " + expected), line);
  }

  @Test
  void theDoctorNamesWhatWasMeasured() throws Exception {
    assertSays("to be measured by a probe at the first creation", doctor());
    assertEquals(List.of(), files());
    run("NCCL4J_PROBE_TIME", "1ms");
    String begun = doctor();
    assertTrue(begun.endsWith(files().get(0) + ", to which the next creation adds"), begun);
    measuringAll();
    Path kept = files().get(0);
    long lines = Files.readAllLines(kept).stream().filter(l -> l.startsWith("2 ")).count();
    String found = doctor();
    assertSays("those of the probe of 20", found);
    assertTrue(found.endsWith("Z, with %d lines in %s".formatted(lines, kept)), found);
    // Results under other conditions are of no use.
    assertSays("to be measured", doctor("NCCL_MAX_CTAS", "4"));
    assertSays("to be measured", doctor("NCCL4J_PROBE", "2"));
    assertSays("to be measured", doctor("FAKECUDA_DEVICES", "3"));
    Path other = Path.of(kept.toString().replace(".costs", "0.costs"));
    String text = Files.readString(kept);
    Files.writeString(other, text.replaceFirst(" over P2P", " over SHM"));
    assertTrue(doctor().endsWith(", or of 1 files beside it for other topologies or transports"));
    for (Path file : files()) {
      Files.writeString(file, "damaged");
    }
    assertSays("to be measured", doctor());
  }

  @Test
  void theDoctorNamesTables() throws Exception {
    assertSays("the library's table of NVIDIA H200", doctor("FAKECUDA_NAME", "NVIDIA H200"));
    assertSays("to be measured", doctor("FAKECUDA_NAME", "NVIDIA H200", "NCCL4J_PROBE", "2"));
    Path table = folder.resolve("tuned");
    Files.write(table, List.of("device Fake GPU", "2 AllReduce Ring LL 1024:1 1048576:2"));
    assertSays(
        "those of " + table + ", with 1 lines for 2 GPUs",
        doctor("NCCL4J_COSTS_FILE", table.toString(), "NCCL4J_PROBE", "0"));
    assertSays(
        "predicted and not measured, because NCCL4J_COSTS_FILE names "
            + table
            + ", which disables the probe and has no times for 3 GPUs of model Fake GPU",
        doctor("NCCL4J_COSTS_FILE", table.toString(), "FAKECUDA_DEVICES", "3"));
    Files.write(table, List.of("2 AllReduce Ring LL 1024:1"));
    String wrong = doctor("NCCL4J_COSTS_FILE", table.toString());
    assertTrue(wrong.startsWith("WRONG    costs "), wrong);
    assertTrue(wrong.contains(table + ", line 1: no line 'device NAME'"), wrong);
  }

  @Test
  void theDoctorSaysWhyNothingIsMeasured() throws Exception {
    String predicted = "predicted and not measured, because ";
    assertSays(predicted + "NCCL4J_PROBE=0 disables it", doctor("NCCL4J_PROBE", "0"));
    assertSays(predicted + "there is one GPU", doctor("FAKECUDA_DEVICES", "1"));
    assertSays(predicted + "the GPUs are of different models", doctor("FAKECUDA_NAME", ""));
    assertSays(
        predicted + "NCCL_CUMEM_ENABLE=0 leaves no windows", doctor("NCCL_CUMEM_ENABLE", "0"));
    assertTrue(
        doctor("FAKECUDA_MIG", "1", "FAKECUDA_NO_PEERS", "1")
            .endsWith(", over connections only, since not all GPUs reach others' memory"));
  }

  /** Creations of one process measure once. */
  @Test
  void whatWasSuspendedIsNotMeasuredAgain() throws Exception {
    Map<String, String> settings = settings();
    settings.put("JAVA_TOOL_OPTIONS", "-Dnccl4j.suspensions=1");
    settings.put("NCCL4J_PROBE_TIME", "60s");
    FakeGpuProcess.Ran ran = process.run(settings, FakeGpuRanks.class);
    assertEquals(
        1,
        ran.output().lines().filter(line -> line.contains("has measured")).count(),
        ran.output());
  }
}
