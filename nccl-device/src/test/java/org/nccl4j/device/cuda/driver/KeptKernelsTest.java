package org.nccl4j.device.cuda.driver;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.cuda.NativeBuild;

/** Tests of keep.sh, with a compiler that notes its runs. */
class KeptKernelsTest {
  @TempDir Path folder;

  @BeforeEach
  void writeSources() throws IOException {
    write("nvcc", "#!/bin/sh\n[ $1 = --version ] && exec cat version\necho >>runs\necho $* >$3\n");
    assertEquals(true, folder.resolve("nvcc").toFile().setExecutable(true));
    write("version", "13.0\n");
    write("kernel.cu", "#include \"step.cuh\"\nint kernel;\n");
    write("step.cuh", "#include \"made.h\"\n  // Steps.\nint step;\n");
    write("out/made.h", "int made;\n");
  }

  private void write(String name, String text) throws IOException {
    Path file = folder.resolve(name);
    Files.createDirectories(file.getParent());
    Files.writeString(file, text);
  }

  /** Makes a kernel, and returns how often the compiler has run until then. */
  private long runs(String out, String kept, String option) throws Exception {
    String script = NativeBuild.source("src/main/cuda/keep.sh").toAbsolutePath().toString();
    String file = out + "/kernel.fatbin";
    ProcessBuilder builder =
        new ProcessBuilder(List.of(script, file, "kernel.cu", "./nvcc", option, "-o", file));
    builder.directory(folder.toFile()).redirectErrorStream(true);
    builder.environment().put("OUT", out);
    builder.environment().put("KEPT", kept);
    Process process = builder.start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, process.waitFor(), output);
    assertEquals(true, Files.readString(folder.resolve(file)).contains(option));
    return Files.readAllLines(folder.resolve("runs")).size();
  }

  @Test
  void theSameIsMadeOnceWhereverItIsPut() throws Exception {
    assertEquals(1, runs("out", "kept", "-O3"));
    assertEquals(1, runs("out", "kept", "-O3"));
    write("other/made.h", "int made;\n");
    assertEquals(1, runs("other", "kept", "-O3"));
  }

  @Test
  void anotherCommandCompilerOrSourceMakesItAnew() throws Exception {
    assertEquals(1, runs("out", "kept", "-O3"));
    assertEquals(2, runs("out", "kept", "-O2"));
    write("version", "13.1\n");
    assertEquals(3, runs("out", "kept", "-O2"));
    write("kernel.cu", "#include \"step.cuh\"\nlong kernel;\n");
    assertEquals(4, runs("out", "kept", "-O2"));
    write("step.cuh", "#include \"made.h\"\nlong step;\n");
    assertEquals(5, runs("out", "kept", "-O2"));
    write("out/made.h", "long made;\n");
    assertEquals(6, runs("out", "kept", "-O2"));
  }

  @Test
  void linesOfCommentsAreNoSource() throws Exception {
    assertEquals(1, runs("out", "kept", "-O3"));
    write("step.cuh", "#include \"made.h\"\n// Steps of a ring.\nint step;\n");
    assertEquals(1, runs("out", "kept", "-O3"));
  }

  @Test
  void nothingIsKeptWithoutAFolder() throws Exception {
    assertEquals(1, runs("out", "", "-O3"));
    assertEquals(2, runs("out", "", "-O3"));
  }
}
