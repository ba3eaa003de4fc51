package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Starts programs in processes of their own, with the recording fake in the driver's place.
 *
 * @param folder where the fake's libcuda.so.1 is
 */
public record FakeGpuProcess(Path folder) {
  /** A container with its own /dev/shm, which shares all else with the host. */
  static final List<String> CONTAINER =
      List.of("unshare", "-m", "sh", "-c", "mount -t tmpfs none /dev/shm && exec \"$@\"", "sh");

  /** The libraries that this JVM's tests have built, by name. */
  private static final Map<String, Path> BUILT = new HashMap<>();

  /** A process's driver calls, output and log. */
  public record Ran(int status, List<String> calls, String output) {
    long count(String call) {
      return calls.stream()
          .filter(c -> c.startsWith(call + "(") || c.startsWith(call + ":"))
          .count();
    }

    long warnings() {
      return output.lines().filter(line -> line.startsWith("WARNING: ")).count();
    }
  }

  /** A process that runs. */
  record Running(Process process, Path record) {
    Ran end() throws Exception {
      String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      int status = process.waitFor();
      return new Ran(status, Files.readAllLines(record), output);
    }
  }

  /** Builds the fake; skips the test, with the reason, where that cannot be. */
  public static FakeGpuProcess in(Path folder) throws Exception {
    FakeGpuProcess made = new FakeGpuProcess(folder);
    made.build("fakecuda.c", "libcuda.so.1", "-I" + cudaInclude());
    return made;
  }

  /** With the fake management library beside it. */
  FakeGpuProcess withNvml() throws Exception {
    build("fakenvml.c", "libnvidia-ml.so.1");
    return this;
  }

  /** Gives programs a compiler of functors, too. */
  FakeGpuProcess withNvrtc() throws Exception {
    build("fakenvrtc.c", "libnvrtc.so.12");
    return this;
  }

  private void build(String source, String library, String... options) throws Exception {
    Path own = folder.resolve(library);
    synchronized (BUILT) {
      Path built = BUILT.get(library);
      if (built != null) {
        Files.copy(built, own, StandardCopyOption.REPLACE_EXISTING);
        return;
      }
      compile(source, library, own, options);
      Path kept = Files.createTempFile("nccl4j-fake", ".so");
      kept.toFile().deleteOnExit();
      BUILT.put(library, Files.copy(own, kept, StandardCopyOption.REPLACE_EXISTING));
    }
  }

  private static void compile(String source, String library, Path out, String... options)
      throws Exception {
    List<String> command =
        new ArrayList<>(
            List.of(
                "gcc",
                "-shared",
                "-fPIC",
                "-Wl,-soname," + library,
                "-o",
                out.toString(),
                Path.of("..", "nccl-device", "src", "test", "c", source).toString()));
    command.addAll(List.of(options));
    try {
      assertEquals(0, new ProcessBuilder(command).inheritIO().start().waitFor());
    } catch (IOException e) {
      assumeTrue(false, "no gcc: " + e.getMessage());
    }
  }

  /** Returns the folder of cuda.h; skips the test where there is none. */
  public static Path cudaInclude() throws IOException {
    List<Path> roots = new ArrayList<>(List.of(Path.of("/usr/local/cuda")));
    for (String directory : System.getenv().getOrDefault("PATH", "").split(":")) {
      Path nvcc = Path.of(directory, "nvcc");
      if (Files.isExecutable(nvcc)) {
        roots.add(nvcc.toRealPath().getParent().getParent());
      }
    }
    Path found =
        roots.stream()
            .map(root -> root.resolve("include"))
            .filter(include -> Files.exists(include.resolve("cuda.h")))
            .findFirst()
            .orElse(null);
    assumeTrue(found != null, "no cuda.h beside nvcc or in /usr/local/cuda/include");
    return found;
  }

  /** Runs a program to its good end. */
  public Ran run(Map<String, String> settings, Class<?> program, String... arguments)
      throws Exception {
    Ran ran = start(settings, program, arguments).end();
    assertEquals(0, ran.status, ran.output);
    return ran;
  }

  /** Starts a program with settings in its environment. */
  Running start(Map<String, String> settings, Class<?> program, String... arguments)
      throws Exception {
    return start(path -> true, settings, program, arguments);
  }

  /** Starts a program in a {@link #CONTAINER}; skips the test where that cannot be. */
  Running startContained(Map<String, String> settings, Class<?> program, String... arguments)
      throws Exception {
    List<String> trial = new ArrayList<>(CONTAINER);
    trial.add("true");
    try {
      assumeTrue(new ProcessBuilder(trial).start().waitFor() == 0, "no mount namespaces");
    } catch (IOException e) {
      assumeTrue(false, "no unshare: " + e.getMessage());
    }
    return start(CONTAINER, path -> true, settings, program, arguments);
  }

  /** Starts a program with a choice of what this JVM has on its paths. */
  Running start(
      Predicate<Path> has, Map<String, String> settings, Class<?> program, String... arguments)
      throws Exception {
    return start(List.of(), has, settings, program, arguments);
  }

  private Running start(
      List<String> container,
      Predicate<Path> has,
      Map<String, String> settings,
      Class<?> program,
      String... arguments)
      throws Exception {
    String classPath =
        Stream.of(
                "target/test-classes",
                "target/classes",
                System.getProperty("jdk.module.path"),
                System.getProperty("java.class.path"))
            .filter(Objects::nonNull)
            .flatMap(paths -> Stream.of(paths.split(File.pathSeparator)))
            .filter(path -> has.test(Path.of(path)))
            .collect(Collectors.joining(File.pathSeparator));
    List<String> options =
        ArchivedClasses.options(
            classPath,
            training ->
                launch(List.of(), training, Map.of("NCCL_NVLS_ENABLE", "0"), FakeGpuRanks.class)
                    .end());
    return launch(container, options, settings, program, arguments);
  }

  private Running launch(
      List<String> container,
      List<String> options,
      Map<String, String> settings,
      Class<?> program,
      String... arguments)
      throws IOException {
    List<String> command = new ArrayList<>(container);
    command.addAll(
        List.of(
            Path.of(System.getProperty("java.home"), "bin", "java").toString(),
            // Less to start, and few methods that run often.
            "-XX:+UseSerialGC",
            "-XX:-UsePerfData",
            "-XX:TieredStopAtLevel=1",
            "-XX:CompileThresholdScaling=3",
            // Else newer Java puts a warning of native access among the communicator's.
            "--enable-native-access=ALL-UNNAMED"));
    command.addAll(options);
    command.add(program.getName());
    command.addAll(List.of(arguments));
    ProcessBuilder builder = new ProcessBuilder(command);
    Path record = Files.createTempFile(folder, "calls", ".txt");
    Map<String, String> environment = builder.environment();
    environment.keySet().removeIf(name -> name.startsWith("NCCL"));
    environment.put("LD_LIBRARY_PATH", folder.toString());
    environment.put("FAKECUDA_RECORD", record.toString());
    environment.put("NCCL4J_NVLS_TEST", "0"); // the fake's kernels compute nothing
    environment.put("NCCL4J_PROBE", "0"); // and take no time
    environment.put("NCCL4J_PRELOAD_KERNELS", "none"); // an eighth of a process's time
    environment.put("NCCL4J_WARMUP", "0"); // a fourteenth; FirstCreationTest has it
    environment.put("NCCL4J_INIT_TIMEOUT", "5m"); // several start at once on a busy machine
    environment.put("NCCL4J_NET_SILENCE_TIMEOUT", "0"); // a stall would be a warning
    environment.remove("JAVA_TOOL_OPTIONS"); // which the JVM would print
    environment.putAll(settings);
    return new Running(builder.redirectErrorStream(true).start(), record);
  }
}
