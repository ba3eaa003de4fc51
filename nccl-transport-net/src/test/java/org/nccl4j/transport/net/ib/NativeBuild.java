package org.nccl4j.transport.net.ib;

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
  private static final Path HEADER = Path.of("/usr/include/infiniband/verbs.h");

  private NativeBuild() {}

  /** Compiles with gcc against the installed libibverbs headers. */
  public static void gcc(String... arguments) {
    assumeTrue(Files.exists(HEADER), "no " + HEADER + ": apt-get install libibverbs-dev");
    List<String> command = new ArrayList<>(List.of("gcc"));
    command.addAll(List.of(arguments));
    run(command);
  }

  /** Runs a command and returns what it prints. */
  public static String run(List<String> command) {
    try {
      Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
      String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      if (process.waitFor() != 0) {
        throw new AssertionError(output);
      }
      return output;
    } catch (IOException e) {
      assumeTrue(false, "cannot run " + command.get(0) + ": " + e.getMessage());
      throw new AssertionError(e);
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  /** A file of the module's sources, from its directory or the root's. */
  static Path source(String path) {
    return Stream.of(Path.of(path), Path.of("nccl-transport-net", path))
        .filter(Files::exists)
        .findFirst()
        .orElseThrow();
  }
}
