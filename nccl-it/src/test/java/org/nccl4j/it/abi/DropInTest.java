package org.nccl4j.it.abi;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.it.cli.Main;
import org.nccl4j.it.nvls.FakeGpuProcess;

/** Programs in C run on libnccl.so.2, on the host and on GPUs of the fake driver. */
@Timeout(600)
class DropInTest {
  private static final Map<String, String> HOST = Map.of("NCCL4J_DEVICE", "host");

  private static final Map<String, String> ON_ONE_GPU =
      Map.of("NCCL_MULTI_RANK_GPU_ENABLE", "1", "NCCL_NVLS_ENABLE", "0");

  private static final long PATIENCE_NANOS = 300_000_000_000L;

  @TempDir private static Path folder;
  private static BuiltLibrary library;

  @BeforeAll
  static void build() throws Exception {
    library = BuiltLibrary.in(folder);
  }

  @Test
  void everyFunctionOnTheHost() throws Exception {
    library.runShort(HOST, library.compile("host"));
  }

  @Test
  void everyWrongArgument() throws Exception {
    library.runShort(HOST, library.compile("wrong", "-ldl"));
  }

  @Test
  void communicatorsThatDoNotBlock() throws Exception {
    library.runShort(HOST, library.compile("background"));
  }

  @Test
  void teamsOfTwoHosts() throws Exception {
    library.runShort(HOST, library.compile("teams"));
  }

  @Test
  void buffersInWindows() throws Exception {
    library.runShort(
        Map.of("NCCL4J_DEVICE", "host", "NCCL_ALGO", "DirectOneShot"), library.compile("windows"));
  }

  @Test
  void memoryAtTheAddressOfMemoryThatWasFreed() throws Exception {
    library.runShort(HOST, library.compile("freed"));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "lazy",
        "fork-before",
        "fork-after",
        "fork-during",
        "fork-exit",
        "fork-locks",
        "left",
        "threads",
        "signals",
        "ends-inside",
        "at-exit",
        "departs",
        "aborts",
        "abort-inside",
        "far-peers"
      })
  void guest(String what) throws Exception {
    library.runShort(HOST, library.compile("guest"), what);
  }

  /** Its path begins in the folder that the program leaves before its first call. */
  @Test
  void aLibraryOfARelativePath() throws Exception {
    library.compile("guest");
    library.runShort(
        HOST, "sh", "-c", "cd '" + folder + "' && LD_LIBRARY_PATH=. exec ./guest other-folder");
  }

  @Test
  void handlersOfSignalsThatComeLater() throws Exception {
    Path signals = Path.of(System.getProperty("java.home"), "lib", "libjsig.so");
    assumeTrue(Files.exists(signals), "there is no " + signals);
    library.runShort(
        Map.of("NCCL4J_DEVICE", "host", "LD_PRELOAD", signals.toString()),
        library.compile("guest"),
        "late-handlers");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "others-options",
        "others-variables",
        "others-variables-late",
        "others-variables-changed"
      })
  void optionsOfOtherJvms(String what) throws Exception {
    library.runShort(
        Map.of(
            "NCCL4J_DEVICE",
            "host",
            "JAVA_TOOL_OPTIONS",
            "-XX:+UseParallelGC",
            "_JAVA_OPTIONS",
            "-Xmx1m"),
        library.compile("guest"),
        what);
  }

  /** Functions of a program's end call NCCL when libjvm.so has destroyed its static objects. */
  @Test
  void collectsGarbageAtTheEndOfTheProgram() throws Exception {
    library.runShort(HOST, library.compile("collect", jniOptions()));
  }

  /** The library then keeps nothing of the thread, which would be stale. */
  @Test
  void threadsThatOthersAttachAndDetach() throws Exception {
    library.runShort(HOST, library.compile("attached", jniOptions()));
  }

  private static String[] jniOptions() {
    Path headers = Path.of(System.getProperty("java.home"), "include");
    return new String[] {"-I" + headers, "-I" + headers.resolve("linux"), "-ldl"};
  }

  @Test
  void withoutJava() throws Exception {
    library.runWell(Map.of("NCCL4J_JAVA_HOME", "/nowhere"), library.compile("guest"), "no-java");
    library.runWell(
        Map.of("NCCL4J_CLASS_PATH", "/nowhere"), library.compile("guest"), "no-classes");
  }

  /** The program hears why, though the class is looked for twice. */
  @Test
  void classesThatCannotBeInitialized(@TempDir Path broken) throws Exception {
    Path compiler = Path.of(System.getProperty("java.home"), "bin", "javac");
    assumeTrue(Files.exists(compiler), "there is no " + compiler);
    Path source = broken.resolve("Entry.java");
    Files.writeString(
        source,
        "package org.nccl4j.it.abi; class Entry { static final int N = Integer.parseInt(\"not of"
            + " nccl4j\"); }");
    List<String> compile = List.of(compiler.toString(), "-d", broken.toString(), source.toString());
    assertEquals(new BuiltLibrary.Ran(0, ""), library.run(Map.of(), compile));
    library.runWell(
        Map.of("NCCL4J_CLASS_PATH", broken.toString()), library.compile("guest"), "broken-classes");
  }

  /** A program that is linked with no library of NCCL, as one with plug-ins. */
  @Test
  void closedAndLoadedAgain() throws Exception {
    library.runShort(
        HOST, library.compile("unloaded", "-Wl,--as-needed", "-ldl"), library.library() + "");
  }

  @ParameterizedTest
  @ValueSource(strings = {"NCCL_DEBUG=DEBUG", "NCCL_CONF_FILE=/nowhere"})
  void wrongSettings(String setting) throws Exception {
    String[] parts = setting.split("=");
    library.runShort(
        Map.of("NCCL4J_DEVICE", "host", parts[0], parts[1]), library.compile("guest"), parts[0]);
  }

  /** Runs a command until its output has a text, since a program has nothing to show at first. */
  private static String until(String text, String... command) {
    long end = System.nanoTime() + PATIENCE_NANOS;
    StringWriter out;
    do {
      out = new StringWriter();
      PrintWriter to = new PrintWriter(out, true);
      Main.run(to, to, command);
    } while (!out.toString().contains(text) && System.nanoTime() < end);
    assertTrue(out.toString().contains(text), out.toString());
    return out.toString();
  }

  /** Its JVM handles no SIGQUIT, and takes commands nevertheless. */
  @Test
  void topAndTraceSeeAProgramInC() throws Exception {
    Process program = library.startShort(HOST, library.compile("watched"));
    try {
      String pid = Long.toString(program.pid());
      until("all_reduce of 1001 float", "top", "-n", "1", "-i", "0.2", pid);
      Path file = folder.resolve("trace.json");
      until(" spans of 1 processes", "trace", "-s", "1", "-o", file.toString(), pid);
      String json = Files.readString(file);
      assertTrue(json.contains("\"name\":\"process " + pid + " on "), json);
      program.getOutputStream().close();
      byte[] said = program.getInputStream().readAllBytes();
      // With what its JVM says of the commands of jcmd.
      String output = new String(said, StandardCharsets.UTF_8);
      assertTrue(output.endsWith("all was right\n"), output);
      assertEquals(0, program.waitFor());
    } finally {
      program.destroyForcibly();
    }
  }

  @Test
  void gpusOfTheFakeDriver() throws Exception {
    FakeGpuProcess driver = FakeGpuProcess.in(folder);
    String program = library.compile("gpu", "-I" + FakeGpuProcess.cudaInclude(), "-l:libcuda.so.1");
    Path record = folder.resolve("calls.txt");
    library.runWell(Map.of("FAKECUDA_RECORD", record.toString()), program);
    assertEquals(driver.folder(), folder);
    assertEquals(
        Stream.of(0, 1, 1, 0)
            .map("cuMemSetAccess(%d,1,%%d,3,1)".formatted(6 << 20)::formatted)
            .toList(),
        Files.readAllLines(record).stream()
            .filter(call -> call.startsWith("cuMemSetAccess(%d,".formatted(6 << 20)))
            .limit(4)
            .toList());
  }

  /** As `./abi-tests functions` runs it, with two ranks on a GPU. */
  @Test
  void everyFunctionOnOneGpu() throws Exception {
    FakeGpuProcess.in(folder);
    library.runShort(ON_ONE_GPU, library.compile("every", "-ldl"));
  }

  @Test
  void everyWrongArgumentOnAGpu() throws Exception {
    FakeGpuProcess.in(folder);
    library.runShort(ON_ONE_GPU, library.compile("wrong", "-ldl"));
  }

  @Test
  void theFirstCallLoadsNoClasses() throws Exception {
    FakeGpuProcess.in(folder);
    Path loaded = folder.resolve("loaded.txt");
    library.runWell(
        Map.of("NCCL_JAVA_OPTIONS", "-Xlog:class+load:file=" + loaded + ":tid"),
        library.compile("first", "-I" + FakeGpuProcess.cudaInclude(), "-l:libcuda.so.1"),
        loaded.toString());
  }

  /**
   * The JVM takes the JDK's classes and modules from their archive as they are, which options such
   * as those of modules would prevent. From Java 21 on it gets one of these.
   */
  @Test
  void startsFromTheArchiveOfTheJdk() throws Exception {
    assumeTrue(Runtime.version().feature() < 21, "its JVM gets an option of modules");
    Path log = folder.resolve("start.txt");
    library.runWell(
        Map.of(
            "NCCL4J_DEVICE", "host", "NCCL_JAVA_OPTIONS", "-Xlog:cds=info,module=info:file=" + log),
        library.compile("guest"),
        "lazy");
    List<String> lines = Files.readAllLines(log);
    assumeTrue(lines.stream().anyMatch(l -> l.contains("Mapped static")), "no archive of the JDK");
    assertEquals(List.of(), lines.stream().filter(l -> l.contains("disabled")).toList());
  }

  /** Each rank is a process. Their times are for people: docs/benchmarks/drop-in.md. */
  @Test
  void theFirstCallsAreCompiled() throws Exception {
    FakeGpuProcess.in(folder);
    for (String ranks : List.of("1", "2")) {
      library.runWell(
          Map.of("FIRST_CALLS", folder.resolve("first-calls").toString()),
          library.compile("calls", "-ldl"),
          ranks);
    }
  }

  /** A program in Java has a JVM, which the library joins. */
  @Test
  void joinsTheProcessesJvm() throws Exception {
    String all = BuiltLibrary.classPath();
    String tests = testClasses(all);
    String without =
        Stream.of(all.split(File.pathSeparator))
            .filter(each -> Path.of(each).getFileName().toString().matches("(jnr|jffi|asm).*"))
            .collect(Collectors.joining(File.pathSeparator));
    for (String visible : List.of(all, without)) {
      BuiltLibrary.Ran ran =
          library.run(
              Map.of("NCCL4J_DEVICE", "host", "NCCL4J_CLASS_PATH", all),
              List.of(
                  Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                  "--enable-native-access=ALL-UNNAMED",
                  "-cp",
                  tests + File.pathSeparator + visible,
                  JoinedProgram.class.getName(),
                  library.library().toString()));
      assertEquals(new BuiltLibrary.Ran(0, "3\n"), ran);
    }
  }

  /** An executor of Spark has a JVM, and classes of nccl4j are nowhere in it. */
  @Test
  void joinsTheJvmOfTasks() throws Exception {
    String all = BuiltLibrary.classPath();
    List<String> options = new ArrayList<>(List.of("-shared", "-fPIC"));
    options.addAll(List.of(jniOptions()));
    BuiltLibrary.Ran ran =
        library.run(
            Map.of("NCCL4J_DEVICE", "host", "NCCL4J_CLASS_PATH", all),
            List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "--enable-native-access=ALL-UNNAMED",
                "-cp",
                testClasses(all),
                TaskProgram.class.getName(),
                library.compile("task", options.toArray(String[]::new))));
    assertEquals(new BuiltLibrary.Ran(0, "3333\n"), ran);
  }

  /** The folder of the tests' classes, in which the library's own are not. */
  private static String testClasses(String all) {
    String name = JoinedProgram.class.getName().replace('.', '/') + ".class";
    return Stream.concat(
            Stream.of(Path.of("target", "test-classes").toAbsolutePath().toString()),
            Stream.of(all.split(File.pathSeparator)))
        .filter(each -> Files.exists(Path.of(each, name)))
        .findFirst()
        .orElseThrow();
  }
}
