package org.nccl4j.it.rdma;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Runs shell commands in the RDMA guest. */
final class Guest {
  private static final String KERNEL = "nccl4j.rdma.kernel";
  private static final Path SCRIPTS = Path.of("src", "test", "rdma").toAbsolutePath();

  /**
   * The outcome of a command.
   *
   * @param status its exit status
   * @param output both of its outputs
   */
  record Result(int status, String output) {
    Result succeeded() {
      assertEquals(0, status, output);
      return this;
    }
  }

  /** Options of perf: its two processes are ranks of two hosts, which share no memory. */
  static final String TWO_HOSTS = "--hosts a,b --launcher 'env NCCL_HOSTID={host}'";

  private final Path folder;

  /** A guest that can write to a folder. */
  Guest(Path folder) {
    this.folder = folder;
  }

  /** Boots, runs a command in the folder, and ends; the whole within so many seconds. */
  Result run(int seconds, String command) throws IOException, InterruptedException {
    String kernel = System.getProperty(KERNEL, "");
    if (kernel.isEmpty() || !Files.isExecutable(Path.of(kernel))) {
      throw new AssertionError(
          "there is no kernel for the RDMA guest at '%s': build one by %s FILE, and pass"
                  .formatted(kernel, SCRIPTS.resolve("build-kernel.sh"))
              + " -Drdma.kernel=FILE");
    }
    Process process =
        new ProcessBuilder(
                SCRIPTS.resolve("guest.sh").toString(),
                kernel,
                folder.toString(),
                Integer.toString(seconds),
                command)
            .redirectErrorStream(true)
            .start();
    process.getOutputStream().close();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    return new Result(process.waitFor(), output);
  }

  /** The command line of this project's program, from the classes under test. */
  static String nccl(String arguments) {
    return java("-m org.nccl4j.it/org.nccl4j.it.cli.Main " + arguments);
  }

  /** The command line of a class of the tests. */
  static String main(Class<?> type, String arguments) {
    String tests = Path.of("target", "test-classes").toAbsolutePath().toString();
    return java(
        // The test kit is on the class path.
        ("--patch-module org.nccl4j.it=%s --add-reads org.nccl4j.it=ALL-UNNAMED"
                + " -m org.nccl4j.it/%s %s")
            .formatted(tests, type.getName(), arguments));
  }

  private static String java(String rest) {
    return Stream.of(
            Path.of(System.getProperty("java.home"), "bin", "java").toString(),
            // One processor: the second compiler takes more of it than it gives in so short a run.
            "-Xmx512m -XX:+UseSerialGC -XX:-UsePerfData -XX:TieredStopAtLevel=1",
            Runtime.version().feature() >= 24 ? "--enable-native-access=ALL-UNNAMED" : "",
            "-cp " + System.getProperty("java.class.path"),
            "-p " + System.getProperty("jdk.module.path"),
            rest)
        .collect(Collectors.joining(" "));
  }

  /** Lines of a result that begin with a word. */
  static List<String> lines(Result result, String word) {
    return result.output().lines().filter(line -> line.startsWith(word)).toList();
  }
}
