package org.nccl4j.device.cuda.driver;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.StringReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Map;
import java.util.Properties;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.cuda.NativeBuild;

class KernelBuildTest {
  private static KernelBuild build(String text) throws IOException {
    return KernelBuild.of(properties("sources=a\n" + text), properties("sources=a"));
  }

  private static Properties properties(String text) throws IOException {
    Properties properties = new Properties();
    properties.load(new StringReader(text));
    return properties;
  }

  private static String runsOn(KernelBuild build) {
    return IntStream.of(70, 75, 80, 86, 87, 89, 90, 100, 103, 120, 121)
        .filter(build::runsOn)
        .boxed()
        .toList()
        .toString();
  }

  @Test
  void codeIsForItsMajorVersionAndPtxForAllNewerGpus() throws IOException {
    assertEquals("[90, 100, 103, 120, 121]", runsOn(build("architectures=90\nptx=90")));
    assertEquals("[80, 86, 87, 89]", runsOn(build("architectures=80\n")));
    assertEquals("[86, 87, 89]", runsOn(build("architectures=86\n")));
    assertEquals(
        "[75, 80, 86, 87, 89, 90, 100, 103, 120, 121]",
        runsOn(build("architectures=75 80 86 89 90 100 120\nptx=120")));
  }

  /** No code is for 11.0 (Jetson Thor), which PTX of newer GPUs does not serve either. */
  @Test
  void aReleaseIsForAllGpusFromTuringOn() throws IOException {
    String pom = Files.readString(Path.of("pom.xml"));
    String release = pom.substring(pom.indexOf("<id>release</id>"));
    KernelBuild build =
        build(
            "architectures=%s\nptx=%s"
                .formatted(property(release, "cuda.architectures"), property(release, "cuda.ptx")));
    for (int gpu : new int[] {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121, 130}) {
      assertTrue(build.runsOn(gpu), gpu + " by " + build);
    }
  }

  private static String property(String pom, String name) {
    String begin = "<" + name + ">";
    int at = pom.indexOf(begin) + begin.length();
    return pom.substring(at, pom.indexOf("</" + name + ">", at));
  }

  @Test
  void aBuildSaysWhatItIsFor() throws IOException {
    assertEquals(
        "CUDA kernels for compute capability 7.5, 10.0, and PTX for newer ones than 12.0",
        build("architectures=75 100\nptx=120").toString());
    KernelBuild none = build("absence=nvcc was not found when it was built");
    assertEquals("no CUDA kernels: nvcc was not found when it was built", none.toString());
    assertEquals("[]", runsOn(none));
    assertEquals("org.nccl4j:nccl-kernels has none", fact(build("")));
  }

  private static String fact(KernelBuild build) {
    return build.absence().orElseThrow().fact();
  }

  /** The layouts of another version's kernels are other ones. */
  @Test
  void kernelsOfOtherSourcesAreNotUsed() throws IOException {
    KernelBuild other =
        KernelBuild.of(properties("sources=a\narchitectures=90\nptx=90"), properties("sources=b"));
    assertEquals("[]", runsOn(other));
    assertEquals("org.nccl4j:nccl-kernels and nccl-device are of different versions", fact(other));
    String remedy = other.absence().orElseThrow().remedy();
    assertTrue(remedy.contains("nccl-bom"), remedy);
  }

  /** Both artifacts of a build say that they are of the same sources. */
  @Test
  void aBuildsArtifactsAreOfTheSameSources(@TempDir Path folder) throws Exception {
    assertEquals(0, runWithoutMake(folder, "false"));
    String device = Files.readString(folder.resolve("device.properties"));
    assertTrue(device.matches("sources=[0-9a-f]{24}\n"), device);
    String kernels = Files.readString(folder.resolve("out/build.properties"));
    assertTrue(kernels.startsWith(device), kernels);
  }

  /** A release without kernels would look like one with them. */
  @Test
  void aBuildThatNeedsKernelsFailsWithoutItsTools(@TempDir Path folder) throws Exception {
    assertEquals(0, runWithoutMake(folder, "false"));
    String properties = Files.readString(folder.resolve("out/build.properties"));
    assertEquals(
        "absence=make was not found when it was built",
        properties.lines().skip(1).findFirst().get());
    assertEquals(1, runWithoutMake(folder, "true"));
    String said = Files.readString(folder.resolve("said"));
    assertTrue(said.contains("the CUDA kernels cannot be made: make was not found"), said);
  }

  /** Older ones do not know the architectures of the kernels of NVLS. */
  @Test
  void anOldCompilerIsNone(@TempDir Path folder) throws Exception {
    for (String version : new String[] {"11.8", "12.0", "12.7", "12.8", "12.10", "13.0", "x"}) {
      Path nvcc = folder.resolve("nvcc-" + version);
      String release = "Cuda compilation tools, release " + version + ", V" + version + ".61";
      // It makes nothing, so where it is asked to, the build fails.
      Files.writeString(
          nvcc, "#!/bin/sh\n[ \"$1\" = --version ] || exit 1\necho '" + release + "'\n");
      assertTrue(nvcc.toFile().setExecutable(true));
      int status = run(folder, "false", Map.of("NVCC", nvcc.toString(), "HOME", folder + "/home"));
      boolean old = !version.matches("12.8|12.10|13.0");
      assertEquals(old, status == 0, version);
      if (old) {
        assertEquals(
            "absence=nvcc is older than CUDA 12.8 (" + nvcc + ")",
            Files.readAllLines(folder.resolve("out/build.properties")).get(1));
      }
    }
  }

  private static int runWithoutMake(Path folder, String required) throws Exception {
    Path tools = Files.createDirectories(folder.resolve("tools"));
    for (String tool :
        new String[] {
          "cat", "cmp", "cut", "dirname", "mkdir", "mv", "rm", "sed", "sh", "sha256sum"
        }) {
      if (!Files.exists(tools.resolve(tool))) {
        Files.copy(
            Path.of("/usr/bin", tool), tools.resolve(tool), StandardCopyOption.COPY_ATTRIBUTES);
      }
    }
    return run(folder, required, Map.of("PATH", tools.toString()));
  }

  private static int run(Path folder, String required, Map<String, String> environment)
      throws Exception {
    Path script = NativeBuild.source("src/main/cuda/build.sh").toAbsolutePath();
    ProcessBuilder builder =
        new ProcessBuilder(
            "/bin/sh",
            script.toString(),
            folder.resolve("out").toString(),
            folder.resolve("device.properties").toString(),
            "90",
            "90",
            required);
    builder.environment().putAll(environment);
    return builder
        .redirectErrorStream(true)
        .redirectOutput(folder.resolve("said").toFile())
        .start()
        .waitFor();
  }
}
