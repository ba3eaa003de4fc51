package org.nccl4j.device.cuda.nvml;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.cuda.NativeBuild;

/**
 * Answers of a small management library in C. Each question is asked in a process of its own, since
 * a library is looked for once.
 */
class NvmlTest {
  @TempDir private Path folder;

  private String ask(boolean there, String what) throws Exception {
    return ask(there, what, "on");
  }

  private String ask(boolean there, String what, String driver) throws Exception {
    return ask(there, what, Map.of("FAKE_NVML", driver));
  }

  private String ask(boolean there, String what, Map<String, String> environment, String... options)
      throws Exception {
    if (there) {
      List<String> command = new ArrayList<>(List.of(options));
      Collections.addAll(
          command,
          "-shared",
          "-fPIC",
          "-Wall",
          "-Werror",
          "-Wl,-soname,libnvidia-ml.so.1",
          "-o",
          folder.resolve("libnvidia-ml.so.1").toString(),
          NativeBuild.source("src/test/c/fakenvml.c").toString());
      NativeBuild.gcc(command.toArray(String[]::new));
    }
    String path =
        System.getProperty("java.class.path")
            + ":"
            + System.getProperty("jdk.module.path", "")
            + ":"
            + Path.of(Nvml.class.getProtectionDomain().getCodeSource().getLocation().toURI())
            + ":"
            + NativeBuild.source("target/test-classes").toAbsolutePath();
    ProcessBuilder child =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC",
                // Else newer Java puts a warning of native access before the answer.
                "--enable-native-access=ALL-UNNAMED",
                "-cp",
                path,
                NvmlTest.class.getName(),
                folder.resolve(there ? "libnvidia-ml.so.1" : "none").toString(),
                what)
            .redirectErrorStream(true);
    child.environment().remove("JAVA_TOOL_OPTIONS"); // which the JVM would print
    child.environment().putAll(environment);
    Process process = child.start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, process.waitFor(), output);
    return output.strip();
  }

  /** Asks, with the library loaded under its name if the file is there. */
  public static void main(String[] arguments) {
    Path library = Path.of(arguments[0]);
    if (Files.exists(library)) {
      System.load(library.toString());
    }
    Nvml nvml = Nvml.probe();
    switch (arguments[1]) {
      case "absence" -> System.out.println(nvml.absence().orElse("there"));
      case "gpus" -> nvml.gpus().forEach(System.out::println);
      case "lookup" ->
          System.out.println(
              nvml.gpu("0000:3d:00.0").orElseThrow().index()
                  + " "
                  + nvml.gpu("0000:99:00.0").isPresent());
      case "peers" ->
          System.out.println(
              nvml.allowsPeers(0, 1) + " " + nvml.allowsPeers(1, 2) + " " + nvml.allowsPeers(7, 8));
      case "links" ->
          System.out.println(
              nvml.hasNvlink("0000:3d:00.0", "0000:5e:00.0")
                  + " "
                  + nvml.hasNvlink("0000:1b:00.0", "0000:5e:00.0")
                  + " "
                  + nvml.hasNvlink("0000:1b:00.0", "0000:99:00.0"));
      case "fabric" -> {
        NvmlFabric fabric = nvml.fabric("0000:5e:00.0");
        System.out.println(fabric);
        System.out.println(fabric.absence().orElse("complete"));
        System.out.println(nvml.chassis("0000:5e:00.0").orElse("none"));
        System.out.println(nvml.fabric("0000:99:00.0").absence().orElse("complete"));
      }
      default -> throw new IllegalArgumentException(arguments[1]);
    }
  }

  @Test
  void linksAreCountedAsNcclCountsThem() throws Exception {
    String[] gpus = ask(true, "gpus").split("\n");
    NvmlGpu hopper = new NvmlGpu(0, "0000:1b:00.0", 90, Map.of(NvmlGpu.UNSEEN, 17), 44712, 9);
    assertEquals(hopper.toString(), gpus[0]);
    // Twelve links of an A100, less one without peers, one that is down, one without a known end.
    assertTrue(gpus[1].contains("index=1, busId=0000:3d:00.0, computeCapability=80"), gpus[1]);
    for (String link : new String[] {"0000:5e:00.0=4", "0000:c1:00.0=4", NvmlGpu.UNSEEN + "=1"}) {
      assertTrue(gpus[1].contains(link), gpus[1]);
    }
    NvmlGpu last = new NvmlGpu(2, "0000:5e:00.0", 80, Map.of("0000:3d:00.0", 4), 0, 0);
    assertEquals(last.toString(), gpus[2]);
    assertEquals(3, gpus.length);
  }

  @Test
  void gpusAreFoundByAddress() throws Exception {
    assertEquals("1 false", ask(true, "lookup"));
  }

  @Test
  void theDriverMayForbidPeers() throws Exception {
    assertEquals("false true true", ask(true, "peers"));
  }

  @Test
  void linksLeadToAGpuOrBothToASwitch() throws Exception {
    String[] of = {"Optional[true]", "Optional[false]", "Optional.empty"};
    assertEquals(String.join(" ", of), ask(true, "links"));
  }

  @Test
  void theFabricIsReadAsTheLibraryLaysItOut() throws Exception {
    String[] said =
        ask(true, "fabric", Map.of("FAKE_FABRIC", "3:0:ab:4294967295:rack-7")).split("\n");
    NvmlFabric fabric = new NvmlFabric("", 3, 0, "ab".repeat(16), -1);
    assertEquals(fabric.toString(), said[0]);
    assertEquals("complete", said[1]);
    assertEquals("rack-7", said[2]);
    assertTrue(said[3].contains("has no GPU at 0000:99:00.0"), said[3]);
    said = ask(true, "fabric", Map.of()).split("\n");
    assertEquals(
        "its NVLink fabric is not known: libnvidia-ml.so.1 does not say: Unknown Error (3)",
        said[1]);
    assertEquals("none", said[2]);
  }

  @Test
  void anOlderLibraryKnowsNoFabric() throws Exception {
    String[] said =
        ask(true, "fabric", Map.of("FAKE_FABRIC", "3:0:ab:1:r"), "-DWITHOUT_FABRIC").split("\n");
    assertEquals("its NVLink fabric is not known: the driver is too old to know of it", said[1]);
    assertEquals("none", said[2]);
  }

  @Test
  void onlyACompleteFabricWithANumberIsOfSeveralHosts() {
    String zero = "0".repeat(32);
    assertTrue(new NvmlFabric("", 3, 0, "1" + zero.substring(1), 0).isOfSeveralHosts());
    assertFalse(new NvmlFabric("", 3, 0, zero, 0).isOfSeveralHosts(), "as on one HGX board");
    assertFalse(new NvmlFabric("", 3, 5, "1" + zero.substring(1), 0).isOfSeveralHosts());
    assertFalse(new NvmlFabric("", 2, 0, "1" + zero.substring(1), 0).isOfSeveralHosts());
    assertTrue(
        new NvmlFabric("", 2, 0, zero, 0).absence().orElseThrow().endsWith("is in progress"));
    assertTrue(new NvmlFabric("", 9, 0, zero, 0).absence().orElseThrow().endsWith("in state 9"));
  }

  @Test
  void aDriverThatIsNotLoadedIsAReason() throws Exception {
    assertEquals(
        "libnvidia-ml.so.1 does not start: Driver Not Loaded (9)", ask(true, "absence", "off"));
  }

  @Test
  void noLibraryIsAReason() throws Exception {
    assumeFalse(
        Files.exists(Path.of("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1")),
        "this machine has a driver");
    String answer = ask(false, "absence");
    assertTrue(answer.contains("libnvidia-ml.so.1, libnvidia-ml.so cannot be loaded"), answer);
    assertEquals("", ask(false, "gpus"));
  }
}
