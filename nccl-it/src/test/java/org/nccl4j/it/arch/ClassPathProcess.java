package org.nccl4j.it.arch;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/**
 * Runs programs on this test's class path with some entries changed.
 *
 * @param entries jars and folders, the first first
 */
record ClassPathProcess(List<String> entries) {
  /** The class path of this test, its modules included. */
  static ClassPathProcess usual() {
    return new ClassPathProcess(
        Stream.of("jdk.module.path", "java.class.path")
            .flatMap(name -> Stream.of(System.getProperty(name, "").split(File.pathSeparator)))
            .filter(entry -> !entry.isEmpty())
            .toList());
  }

  /** The same with a folder in front of all others. */
  ClassPathProcess after(Path folder) {
    return new ClassPathProcess(
        Stream.concat(Stream.of(folder.toString()), entries.stream()).toList());
  }

  /** The same without the entries of a module's folder. */
  ClassPathProcess without(String module) {
    List<String> others = entries.stream().filter(entry -> !entry.contains(module)).toList();
    assertEquals(entries.size() - 1, others.size(), module + " is one of " + entries);
    return new ClassPathProcess(others);
  }

  /** The class path as text. */
  String text() {
    return String.join(File.pathSeparator, entries);
  }

  /** Runs a main class to its end, which must be a success, and returns its output. */
  String run(Map<String, String> environment, String main, String... arguments)
      throws IOException, InterruptedException {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    if (Runtime.version().feature() >= 24) {
      command.add("--enable-native-access=ALL-UNNAMED");
    }
    command.addAll(List.of("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"));
    command.addAll(List.of("-cp", text(), main));
    command.addAll(List.of(arguments));
    ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
    builder.environment().putAll(environment);
    Process process = builder.start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, process.waitFor(), output);
    return output;
  }

  /** Runs {@code perf all_reduce} among three ranks of the host device, and checks the results. */
  String allReduce(Map<String, String> environment, String... options)
      throws IOException, InterruptedException {
    List<String> arguments = new ArrayList<>(List.of("perf", "all_reduce", "-t", "3"));
    arguments.addAll(List.of("-b", "8", "-e", "32K", "-f", "16", "-n", "3", "-w", "1"));
    arguments.addAll(List.of("--jit-warmup", "0"));
    arguments.addAll(List.of(options));
    String output = run(environment, "org.nccl4j.it.cli.Main", arguments.toArray(String[]::new));
    assertEquals(true, output.contains("Out of bounds values : 0 OK"), output);
    return output;
  }
}
