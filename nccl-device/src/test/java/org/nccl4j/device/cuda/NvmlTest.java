package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * What is made of a small management library in C. Each question is asked in a process of its own,
 * since a library is looked for once.
 */
class NvmlTest {
  @TempDir private Path folder;

  private String ask(boolean there, String what) throws Exception {
    return ask(there, what, "on");
  }

  private String ask(boolean there, String what, String driver) throws Exception {
    if (there) {
      NativeBuild.gcc(
          "-shared",
          "-fPIC",
          "-Wall",
          "-Werror",
          "-Wl,-soname,libnvidia-ml.so.1",
          "-o",
          folder.resolve("libnvidia-ml.so.1").toString(),
          NativeBuild.source("src/test/c/fakenvml.c").toString());
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
                // Else newer Java puts a warning of native access before the answer.
                "--enable-native-access=ALL-UNNAMED",
                "-cp",
                path,
                NvmlTest.class.getName(),
                folder.resolve(there ? "libnvidia-ml.so.1" : "none").toString(),
                what)
            .redirectErrorStream(true);
    child.environment().put("NCCL4J_FAKE_NVML", driver);
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
    assertTrue(answer.contains("libnvidia-ml.so.1 cannot be loaded"), answer);
    assertEquals("", ask(false, "gpus"));
  }
}
