package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** A libibverbs with one RoCE device, roce0, that moves data within the process. */
public final class FakeVerbsLibrary {
  private static final Path HEADER = Path.of("/usr/include/infiniband/verbs.h");
  private static final Path SOURCE = Path.of("..", "nccl-transport-net/src/test/c/fakeverbs.c");
  private static String path;

  private FakeVerbsLibrary() {}

  /** Builds it, once in a process; skips the test, with the reason, where that cannot be done. */
  public static synchronized String path() {
    if (path == null) {
      assumeTrue(Files.exists(HEADER), "no " + HEADER + ": apt-get install libibverbs-dev");
      path = build();
    }
    return path;
  }

  /** Copies it into a folder, which a process loads beside others, and returns the path. */
  static String copyTo(Path folder) throws IOException {
    Path copy = folder.resolve("libfakeverbs.so");
    Files.copy(Path.of(path()), copy);
    return copy.toString();
  }

  private static String build() {
    try {
      Path library = Files.createTempDirectory("fakeverbs").resolve("libfakeverbs.so");
      library.getParent().toFile().deleteOnExit();
      library.toFile().deleteOnExit();
      Process gcc =
          new ProcessBuilder(
                  List.of(
                      "gcc",
                      "-DFAKE_ROCE",
                      "-shared",
                      "-Wl,-Bsymbolic", // each copy calls itself
                      "-fPIC",
                      "-O1",
                      "-pthread",
                      "-o",
                      library.toString(),
                      SOURCE.toString()))
              .redirectErrorStream(true)
              .start();
      String output = new String(gcc.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      assertEquals(0, gcc.waitFor(), output);
      return library.toString();
    } catch (IOException e) {
      assumeTrue(false, "no gcc: " + e.getMessage());
      throw new AssertionError(e);
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }
}
