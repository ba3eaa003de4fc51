package org.nccl4j.it.abi;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.nccl4j.it.api.RankJvm;

/**
 * A libnccl.so.2 that was built for a test, and programs in C that use it.
 *
 * @param folder where it and the programs are
 */
record BuiltLibrary(Path folder) {
  private static final Path SOURCES = Path.of("src", "main", "c");
  private static final Path PROGRAMS = Path.of("src", "test", "c", "abi");
  private static final long PATIENCE_SECONDS = 300;

  /** The end of a program. */
  record Ran(int status, String output) {}

  /** Builds it; skips the test, with the reason, where that cannot be. */
  static BuiltLibrary in(Path folder) throws Exception {
    assumeTrue(has("gcc"), "there is no gcc");
    Path home = Path.of(System.getProperty("java.home"));
    assumeTrue(Files.exists(home.resolve("include/jni.h")), home + " has no include/jni.h");
    BuiltLibrary made = new BuiltLibrary(folder);
    Ran built =
        made.run(Map.of(), List.of(SOURCES.resolve("build.sh").toString(), folder + "", home + ""));
    assertEquals(new Ran(0, ""), built);
    return made;
  }

  private static boolean has(String tool) {
    String path = new ProcessBuilder().environment().getOrDefault("PATH", "");
    return Stream.of(path.split(File.pathSeparator))
        .anyMatch(each -> Files.isExecutable(Path.of(each, tool)));
  }

  Path library() {
    return folder.resolve("libnccl.so.2");
  }

  /** Compiles a program and returns its file. */
  String compile(String name, String... options) throws Exception {
    String program = folder.resolve(name).toString();
    List<String> command =
        new ArrayList<>(
            List.of(
                "gcc",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-O1",
                "-o",
                program,
                PROGRAMS.resolve(name + ".c").toString(),
                "-L" + folder));
    command.addAll(List.of(options));
    command.addAll(List.of("-l:libnccl.so.2", "-lpthread"));
    assertEquals(new Ran(0, ""), run(Map.of(), command));
    return program;
  }

  /** Runs a program that is to find everything right, and to write nothing else. */
  void runWell(Map<String, String> settings, String... command) throws Exception {
    Map<String, String> all = new HashMap<>(Map.of("NCCL4J_CLASS_PATH", classPath()));
    all.putAll(settings);
    assertEquals(new Ran(0, "all was right\n"), run(all, List.of(command)));
  }

  /**
   * Runs a program as {@link #runWell}, in a JVM that starts soon and compiles little: with a class
   * data archive as `nccl with` gives it, and without the optimizing compiler.
   */
  void runShort(Map<String, String> settings, String... command) throws Exception {
    runWell(shortly(settings), command);
  }

  /** Settings with those of a JVM that starts soon and compiles little. */
  private static Map<String, String> shortly(Map<String, String> settings) throws Exception {
    List<String> options = RankJvm.archived();
    Map<String, String> all = new HashMap<>(settings);
    all.put("NCCL4J_CLASS_PATH", options.remove(options.size() - 1));
    options.remove("-cp");
    all.put("NCCL_JAVA_OPTIONS", String.join(" ", options) + " -XX:TieredStopAtLevel=1");
    return all;
  }

  /** Starts a program as {@link #runShort} does, with an input and an output to be read. */
  Process startShort(Map<String, String> settings, String... command) throws Exception {
    return builder(shortly(settings), List.of(command)).start();
  }

  /** Runs a command to its end, with this folder among the library's. */
  Ran run(Map<String, String> settings, List<String> command) throws Exception {
    ProcessBuilder builder = builder(settings, command);
    Path output = Files.createTempFile(folder, "output", ".txt");
    builder.redirectOutput(output.toFile());
    Process process = builder.start();
    if (!process.waitFor(PATIENCE_SECONDS, TimeUnit.SECONDS)) {
      process.destroyForcibly();
      throw new AssertionError(command + " does not end: " + text(output));
    }
    return new Ran(process.exitValue(), text(output));
  }

  private ProcessBuilder builder(Map<String, String> settings, List<String> command) {
    ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
    Map<String, String> environment = builder.environment();
    environment.keySet().removeIf(name -> name.startsWith("NCCL"));
    environment.put("LD_LIBRARY_PATH", folder.toString());
    environment.put("JAVA_HOME", System.getProperty("java.home"));
    environment.putAll(settings);
    return builder;
  }

  private static String text(Path file) throws IOException {
    return Files.readString(file, StandardCharsets.UTF_8);
  }

  /** The classes of this test, for another JVM. */
  static String classPath() {
    return Stream.of(
            System.getProperty("jdk.module.path"),
            System.getProperty("java.class.path"),
            Path.of("target", "classes").toAbsolutePath().toString())
        .filter(Objects::nonNull)
        .reduce((a, b) -> a + File.pathSeparator + b)
        .orElseThrow();
  }
}
