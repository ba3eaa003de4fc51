package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** The network plug-in in C that tests build. */
public final class NetPluginLibrary {
  private static final Path SOURCE = Path.of("src", "test", "c", "net_plugin.c");

  private NetPluginLibrary() {}

  /**
   * The plug-in of a version, built once in a folder; the test is skipped where there is no gcc.
   *
   * @param options for the compiler
   */
  public static synchronized String build(Path folder, int version, String name, String... options)
      throws IOException, InterruptedException {
    Path library = folder.resolve("libnccl-net-%s-%d.so".formatted(name, version));
    if (library.toFile().exists()) {
      return library.toString();
    }
    List<String> command =
        new ArrayList<>(
            List.of(
                "gcc",
                "-shared",
                "-fPIC",
                "-O1",
                "-DVERSION=" + version,
                "-DNAME=\"" + name + "\"",
                "-o",
                library.toString(),
                SOURCE.toString()));
    command.addAll(List.of(options));
    try {
      Process gcc = new ProcessBuilder(command).redirectErrorStream(true).start();
      String output = new String(gcc.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      assertEquals(0, gcc.waitFor(), output);
    } catch (IOException e) {
      assumeTrue(false, "no gcc: " + e.getMessage());
    }
    return library.toString();
  }
}
