package org.nccl4j.it.natives;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.it.cli.Main;

/** Collectives of the host device in JVMs that lack some or all ways to call native functions. */
@Timeout(600)
class WithoutNativeCallsTest {
  private static final int JAVA = Runtime.version().feature();

  @Test
  void foreignFunctionsNeedNoJnr() throws Exception {
    assumeTrue(JAVA >= 22, "java.lang.foreign came with Java 22");
    String output =
        ended(
            start(
                classPath(/* jnr= */ false),
                options(JAVA >= 24 ? "--enable-native-access=ALL-UNNAMED" : "", "-verbose:class"),
                "2",
                "0",
                "2"));
    assertFalse(output.contains(" com.kenai.jffi."), "jffi is loaded");
    assertFalse(output.contains(" jnr.ffi."), "jnr-ffi is loaded");
  }

  /** As on a system for which jffi has no library. */
  @Test
  void processesShareMemoryWithoutJnr() throws Exception {
    assumeTrue(JAVA >= 22, "java.lang.foreign came with Java 22");
    twoProcesses(
        Map.of("NCCL4J_TRANSPORTS", "SHM"),
        classPath(/* jnr= */ false),
        options(JAVA >= 24 ? "--enable-native-access=ALL-UNNAMED" : ""));
  }

  @Test
  void jnrIsThereToGoBackTo() throws Exception {
    String output =
        ended(
            start(
                classPath(/* jnr= */ true),
                options(
                    JAVA >= 24 ? "--enable-native-access=ALL-UNNAMED" : "",
                    "-Dnccl4j.native=jnr",
                    "-verbose:class"),
                "2",
                "0",
                "2"));
    assertTrue(output.contains(" com.kenai.jffi."), "jffi is not loaded");
  }

  @Test
  void threadsNeedNoNativeAccess() throws Exception {
    assumeTrue(JAVA >= 24, "access can be denied from Java 24 on");
    ended(
        start(classPath(/* jnr= */ true), options("--illegal-native-access=deny"), "3", "0", "3"));
  }

  /** Processes share memory by native calls, so without these they use sockets. */
  @Test
  void processesWithoutNativeAccessUseSockets() throws Exception {
    assumeTrue(JAVA >= 24, "access can be denied from Java 24 on");
    twoProcesses(classPath(/* jnr= */ true), options("--illegal-native-access=deny"));
  }

  /**
   * Under the names of other systems no function of the C library is bound, and nothing needs a
   * file of /proc, /sys or /dev, which are hidden. This shows what this library asks Linux for. It
   * does not show that the JDK of another system does what this one does.
   */
  @ParameterizedTest
  @ValueSource(strings = {"Windows 11", "Mac OS X"})
  void threadsNeedNoLinux(String system, @TempDir Path folder) throws Exception {
    assumeTrue(JAVA >= 22, "older JDKs look for the system's socket options by os.name");
    Path hiding = folder.resolve("elsewhere.so");
    Path asked = folder.resolve("asked");
    compile("src/test/c/elsewhere.c", hiding);
    Process process =
        start(
            Map.of("LD_PRELOAD", hiding.toString(), "ELSEWHERE", asked.toString()),
            classPath(/* jnr= */ true),
            options(
                JAVA >= 24 ? "--enable-native-access=ALL-UNNAMED" : "",
                "-verbose:class",
                "-Dos.name=" + system),
            "3",
            "0",
            "3");
    String output = ended(process);
    assertTrue(output.contains(" org.nccl4j.device.bind.NativeNames "), "classes are listed");
    assertFalse(output.contains(" org.nccl4j.device.bind.LibcFunctions$"), "libc is bound");
    assertTrue(Files.readAllLines(asked).contains("/proc/sys/kernel/hostname"), "hidden");
  }

  @ParameterizedTest
  @ValueSource(strings = {"Windows 11", "Mac OS X"})
  void processesNeedNoLinux(String system, @TempDir Path folder) throws Exception {
    assumeTrue(JAVA >= 22, "older JDKs look for the system's socket options by os.name");
    Path hiding = folder.resolve("elsewhere.so");
    Path asked = folder.resolve("asked");
    compile("src/test/c/elsewhere.c", hiding);
    twoProcesses(
        Map.of("LD_PRELOAD", hiding.toString(), "ELSEWHERE", asked.toString()),
        classPath(/* jnr= */ true),
        options(JAVA >= 24 ? "--enable-native-access=ALL-UNNAMED" : "", "-Dos.name=" + system));
    assertTrue(Files.readAllLines(asked).contains("/proc/sys/kernel/hostname"), "hidden");
  }

  @ParameterizedTest
  @ValueSource(strings = {"Windows 11", "Mac OS X"})
  void doctorSaysWhatNeedsLinux(String system) throws Exception {
    assumeTrue(JAVA >= 22, "older JDKs look for the system's socket options by os.name");
    String output =
        output(
            command(
                classPath(/* jnr= */ true),
                options(
                    JAVA >= 24 ? "--enable-native-access=ALL-UNNAMED" : "", "-Dos.name=" + system),
                Main.class,
                "doctor"));
    assertTrue(
        output.contains("MISSING  libc           nccl4j does not call libc on " + system), output);
    assertTrue(output.contains("use Linux for shared memory between processes"), output);
    assertFalse(output.contains("report this as a defect"), output);
    assertFalse(output.contains("apt-get"), output);
  }

  @Test
  void jnrWithoutAccessNamesTheOption() throws Exception {
    assumeTrue(JAVA >= 24, "access can be denied from Java 24 on");
    String output =
        ended(
            start(
                classPath(/* jnr= */ true),
                options("--illegal-native-access=deny", "-Dnccl4j.native=jnr"),
                "2",
                "0",
                "2"));
    assertTrue(output.contains("--enable-native-access=ALL-UNNAMED"), output);
  }

  /** As on a system for which jffi has no library, with a Java that has no foreign functions. */
  @Test
  void threadsNeedNoJffi() throws Exception {
    String output =
        ended(start(classPath(/* jnr= */ false), options("-Dnccl4j.native=jnr"), "3", "0", "3"));
    assertTrue(output.contains("WARNING: "), output);
    assertTrue(output.contains("the native library jffi cannot be loaded"), output);
    assertTrue(output.contains("add jffi and jnr-ffi"), output);
  }

  @Test
  void processesWithoutJffiUseSockets() throws Exception {
    twoProcesses(classPath(/* jnr= */ false), options("-Dnccl4j.native=jnr"));
  }

  /** jffi unpacks its library, which a folder that is no folder refuses. */
  @Test
  void threadsNeedNoLibraryOfJffi(@TempDir Path folder) throws Exception {
    Path file = Files.createFile(folder.resolve("file"));
    String output =
        ended(
            start(
                classPath(/* jnr= */ true),
                options(
                    "-Dnccl4j.native=jnr",
                    "-Djava.io.tmpdir=" + file,
                    "-Djffi.extract.dir=" + file),
                "2",
                "0",
                "2"));
    assertTrue(output.contains("-Djava.io.tmpdir=DIR"), output);
  }

  @Test
  void doctorSaysWhatNeedsJffi() throws Exception {
    String output =
        output(
            command(
                classPath(/* jnr= */ false), options("-Dnccl4j.native=jnr"), Main.class, "doctor"));
    assertTrue(
        output.contains("MISSING  libc           the native library jffi cannot be loaded"),
        output);
    assertTrue(output.contains("add jffi and jnr-ffi"), output);
    assertTrue(output.contains("an all-reduce between two ranks works"), output);
    assertFalse(output.contains("Could not initialize"), output);
    assertFalse(output.contains("report this as a defect"), output);
  }

  private static void twoProcesses(String classPath, List<String> options) throws Exception {
    twoProcesses(Map.of(), classPath, options);
  }

  /** A rank in each of two processes. */
  private static void twoProcesses(
      Map<String, String> variables, String classPath, List<String> options) throws Exception {
    Process first = start(variables, classPath, options, "2", "0", "1");
    BufferedReader output = first.inputReader();
    String line = output.readLine();
    while (line != null && !line.startsWith("id ")) {
      line = output.readLine();
    }
    assertNotNull(line, "the first process says no id");
    String id = line.substring("id ".length());
    ended(start(variables, classPath, options, "2", "1", "1", id));
    ended(first);
  }

  private static void compile(String source, Path library) throws Exception {
    ProcessBuilder gcc =
        new ProcessBuilder("gcc", "-shared", "-fPIC", "-o", library.toString(), source, "-ldl");
    try {
      assertEquals(0, gcc.inheritIO().start().waitFor());
    } catch (IOException e) {
      assumeTrue(false, "no gcc: " + e.getMessage());
    }
  }

  private static List<String> options(String... options) {
    return Arrays.stream(options).filter(option -> !option.isEmpty()).toList();
  }

  private static String ended(Process process) throws Exception {
    String output = output(process);
    assertEquals(0, process.waitFor(), output);
    assertTrue(output.endsWith("correct") || output.contains("\ncorrect\n"), output);
    return output;
  }

  private static String output(Process process) {
    return process.inputReader().lines().collect(Collectors.joining("\n"));
  }

  private static String output(List<String> command) throws IOException {
    return output(start(Map.of(), command));
  }

  private static Process start(String classPath, List<String> options, String... arguments)
      throws IOException {
    return start(Map.of(), classPath, options, arguments);
  }

  private static Process start(
      Map<String, String> variables, String classPath, List<String> options, String... arguments)
      throws IOException {
    return start(variables, command(classPath, options, EveryCollective.class, arguments));
  }

  private static List<String> command(
      String classPath, List<String> options, Class<?> program, String... arguments) {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(
        List.of("-XX:MaxDirectMemorySize=2g", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"));
    command.addAll(options);
    command.addAll(List.of("-cp", classPath, program.getName()));
    command.addAll(List.of(arguments));
    return command;
  }

  private static Process start(Map<String, String> variables, List<String> command)
      throws IOException {
    ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
    builder.environment().keySet().removeIf(name -> name.startsWith("NCCL"));
    builder.environment().putAll(variables);
    return builder.start();
  }

  private static String classPath(boolean jnr) {
    return Stream.of(
            "target/test-classes",
            "target/classes",
            System.getProperty("jdk.module.path"),
            System.getProperty("java.class.path"))
        .filter(Objects::nonNull)
        .flatMap(path -> Arrays.stream(path.split(File.pathSeparator)))
        .filter(entry -> jnr || !Path.of(entry).getFileName().toString().matches("(jnr|jffi)-.*"))
        .collect(Collectors.joining(File.pathSeparator));
  }
}
