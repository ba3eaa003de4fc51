package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/**
 * Programs that run the kernels' headers on the host: these are compiled with headers that stand
 * for some of them. Needs nvcc's host compiler.
 *
 * @param folder of all files
 */
public record HostKernels(Path folder) {
  /**
   * Copies the sources.
   *
   * @param standIns the folder in src/test/c with the programs and what stands for headers
   * @param headers of the kernels
   */
  public static HostKernels in(Path folder, String standIns, String... headers) throws IOException {
    for (String name : headers) {
      Files.copy(NativeBuild.source("src/main/cuda/" + name), folder.resolve(name));
    }
    return new HostKernels(folder).with(standIns);
  }

  /** Copies another folder of src/test/c. */
  public HostKernels with(String standIns) throws IOException {
    try (Stream<Path> files = Files.list(NativeBuild.source("src/test/c/" + standIns))) {
      for (Path file : files.toList()) {
        Files.copy(file, folder.resolve(file.getFileName()));
      }
    }
    return this;
  }

  /** Compiles a program from one source. */
  public void compile(String source, String program, String... options) {
    List<String> arguments = new ArrayList<>(List.of("-x", "c++", "-std=c++17"));
    arguments.addAll(List.of(options));
    arguments.addAll(List.of("-o", path(program), path(source)));
    NativeBuild.nvcc(arguments.toArray(String[]::new));
  }

  /** Runs a program, which has to succeed, and returns what it prints. */
  public String run(String program, List<String> arguments) throws Exception {
    List<String> command = new ArrayList<>(List.of(path(program)));
    command.addAll(arguments);
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, process.waitFor(), () -> String.join(" ", command) + ": " + output);
    return output.strip();
  }

  private String path(String name) {
    return folder.resolve(name).toString();
  }
}
