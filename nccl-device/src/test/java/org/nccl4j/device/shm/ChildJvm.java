package org.nccl4j.device.shm;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;

/** Another JVM with this one's classes, that runs a main method and is killed at the end. */
final class ChildJvm implements AutoCloseable {
  private final Process process;
  private final BufferedReader output;

  ChildJvm(Class<?> main, String... arguments) throws IOException {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(
        List.of("-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classPath()));
    command.add(main.getName());
    command.addAll(List.of(arguments));
    process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    output = process.inputReader();
  }

  private static String classPath() {
    return Stream.of(
            "target/test-classes",
            "target/classes",
            System.getProperty("jdk.module.path"),
            System.getProperty("java.class.path"))
        .filter(Objects::nonNull)
        .reduce((a, b) -> a + File.pathSeparator + b)
        .orElseThrow();
  }

  String readLine() throws IOException {
    return output.readLine();
  }

  void writeLine(String line) throws IOException {
    process.outputWriter().write(line + "\n");
    process.outputWriter().flush();
  }

  void kill() {
    process.destroyForcibly().onExit().join();
  }

  @Override
  public void close() {
    kill();
  }
}
