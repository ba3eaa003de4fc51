package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** Builds the tests' C, or skips them with the reason. */
public final class NativeBuild {
  private NativeBuild() {}

  /** The directory of cuda.h, beside nvcc. */
  static Path cudaInclude() {
    List<Path> roots = new ArrayList<>();
    for (String directory : System.getenv().getOrDefault("PATH", "").split(":")) {
      Path nvcc = Path.of(directory, "nvcc");
      if (Files.isExecutable(nvcc)) {
        try {
          roots.add(nvcc.toRealPath().getParent().getParent());
        } catch (IOException e) {
          continue;
        }
      }
    }
    roots.add(Path.of("/usr/local/cuda"));
    for (Path root : roots) {
      if (Files.exists(root.resolve("include/cuda.h"))) {
        return root.resolve("include");
      }
    }
    assumeTrue(false, "no cuda.h beside nvcc or in /usr/local/cuda/include");
    throw new AssertionError();
  }

  /** Compiles with gcc. */
  public static void gcc(String... arguments) {
    compile("gcc", arguments);
  }

  /** Compiles with nvcc. */
  public static void nvcc(String... arguments) {
    compile("nvcc", arguments);
  }

  /** Makes schedules.h in a directory, for which the Makefile needs no nvcc. */
  public static void schedules(Path directory) {
    String header = directory.toAbsolutePath().resolve("schedules.h").toString();
    compile(
        "make",
        "-s",
        "-C",
        source("src/main/cuda").toString(),
        "NVCC=false",
        "OUT=" + directory.toAbsolutePath(),
        header);
  }

  private static void compile(String compiler, String... arguments) {
    try {
      List<String> command = new ArrayList<>(List.of(compiler));
      command.addAll(List.of(arguments));
      Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
      String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      if (process.waitFor() != 0) {
        throw new AssertionError(output);
      }
    } catch (IOException e) {
      assumeTrue(false, "no " + compiler + ": " + e.getMessage());
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  /** A file of the module's sources, from its directory or the root's. */
  public static Path source(String path) {
    return Stream.of(Path.of(path), Path.of("nccl-device", path))
        .filter(Files::exists)
        .findFirst()
        .orElseThrow();
  }
}
