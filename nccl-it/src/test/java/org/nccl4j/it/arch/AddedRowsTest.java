package org.nccl4j.it.arch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.spi.ToolProvider;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Adds an algorithm, a data type and a setting to copies of the sources, counts the files, and runs
 * them. The host's files are compiled and used; GPUs' kernels go through the preprocessor. {@code
 * SampleTransportTest} does the same with a transport.
 */
@Timeout(600)
class AddedRowsTest {
  private static final Path DEVICE = Path.of("../nccl-device/src/main/java/org/nccl4j/device");
  private static final Path CUDA = Path.of("../nccl-device/src/main/cuda");
  private static final Path OPERATION = Path.of("../nccl-topo/src/main/java/org/nccl4j/operation");
  private static final Path SETTINGS = Path.of("../nccl-api/src/main/java/org/nccl4j/api/settings");

  @TempDir Path folder;

  /** The sources that are new or changed. */
  private final List<Path> java = new ArrayList<>();

  private static String replaced(String source, String from, String to) {
    assertTrue(source.contains(from), from);
    return source.replace(from, to);
  }

  /** Adds a source to those that are compiled. */
  private void java(String name, String source) throws IOException {
    java.add(Files.writeString(folder.resolve(name), source));
  }

  /** Compiles the added sources and returns the class path that begins with their classes. */
  private ClassPathProcess compiled() throws IOException {
    ClassPathProcess usual = ClassPathProcess.usual();
    Path classes = Files.createDirectory(folder.resolve("classes"));
    List<String> command =
        new ArrayList<>(List.of("-proc:none", "-d", classes.toString(), "-cp", usual.text()));
    java.forEach(file -> command.add(file.toString()));
    StringWriter said = new StringWriter();
    PrintWriter out = new PrintWriter(said);
    ToolProvider javac = ToolProvider.findFirst("javac").orElseThrow();
    assertEquals(0, javac.run(out, out, command.toArray(String[]::new)), said::toString);
    return usual.after(classes);
  }

  /** A copy of the kernels' sources, of which a test changes one file or adds one. */
  private Path cuda() throws IOException {
    Path copy = Files.createDirectory(folder.resolve("cuda"));
    try (Stream<Path> files = Files.list(CUDA)) {
      for (Path file : files.filter(Files::isRegularFile).toList()) {
        Files.copy(file, copy.resolve(file.getFileName().toString()));
      }
    }
    return copy;
  }

  private static String output(String... command) throws IOException, InterruptedException {
    Process process;
    try {
      process = new ProcessBuilder(command).redirectErrorStream(true).start();
    } catch (IOException e) {
      assumeTrue(false, e.getMessage());
      throw e;
    }
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, process.waitFor(), output);
    return output;
  }

  /** Two files: the row, and the kernels under another name. */
  @Test
  void anAlgorithmOnTheHost() throws Exception {
    String row =
        """
          /** An algorithm of a test. */
          STAR("Star", Needs.CONNECTIONS_OF_ALL, Set.of(Operation.ALL_REDUCE), Traffic.TWO_SHOT),
          /** NVLink SHARP: each head\
        """;
    String rows = Files.readString(OPERATION.resolve("Algorithm.java"));
    java("Algorithm.java", replaced(rows, "  /** NVLink SHARP: each head", row));
    String twoShot =
        Files.readString(DEVICE.resolve("host/kernel/algorithm").resolve("TwoShotKernels.java"));
    java("StarKernels.java", replaced(twoShot, "class TwoShotKernels", "class StarKernels"));
    assertEquals(2, java.size());
    Path json = folder.resolve("star.json");
    compiled().allReduce(Map.of(), "--algo", "Star", "--json", json.toString());
    assertTrue(Files.readString(json).matches("(?s).*\"algorithm\" ?: ?\"Star\".*"), "is used");
  }

  /** One more file: a header with its row and its schedule, from which the kernels are made. */
  @Test
  void anAlgorithmOnGpus() throws Exception {
    Path cuda = cuda();
    String header = Files.readString(CUDA.resolve("two_shot.cuh"));
    header = replaced(header, "Row 3 of", "Row 6 of");
    header = replaced(header, "TWO_SHOT, two_shot, twoShot,", "STAR, star, star,");
    Files.writeString(cuda.resolve("star.cuh"), replaced(header, "void twoShot(", "void star("));
    String out = folder.resolve("out").toString();
    output("make", "-s", "-C", cuda.toString(), "NVCC=false", "OUT=" + out, out + "/schedules.h");
    String[] options = {"-E", "-std=c++17", "-I" + cuda, "-I" + out};
    String numbers = output("gcc", options[0], options[2], options[3], cuda + "/algorithms.h");
    assertTrue(numbers.matches("(?s).*TWO_SHOT, *PAT, *HIERARCHICAL, *STAR, *\\};.*"), numbers);
    String family = cuda.resolve("family.cu").toString();
    String kernels =
        output(
            Stream.of(
                    Stream.of("nvcc", "-arch=sm_90", "-DFAMILY_TYPE=family_int8"),
                    Stream.of(options),
                    Stream.of(family))
                .flatMap(part -> part)
                .toArray(String[]::new));
    for (String protocol : List.of("ll", "ll128")) {
      assertTrue(kernels.contains("nccl4j_" + protocol + "_star"), "a kernel of " + protocol);
    }
  }

  /** Two files: the row, and the conversions under another name. */
  @Test
  void aDataTypeOnTheHost() throws Exception {
    String rows = Files.readString(DEVICE.resolve("DataType.java"));
    String last = "FLOAT8_E5M2(\"f8e5m2\", 1, 3);";
    String row = last.replace(';', ',') + "\n  /** A type of a test. */ STAR16(\"star16\", 2, 8);";
    java("DataType.java", replaced(rows, last, row));
    String bfloat = Files.readString(DEVICE.resolve("numeric").resolve("Bfloat16.java"));
    java("Star16.java", replaced(bfloat, "Bfloat16", "Star16"));
    assertEquals(2, java.size());
    String table = compiled().allReduce(Map.of(), "-d", "star16");
    assertTrue(table.contains("star16"), table);
  }

  /** One more file: the row of types.h, from which kernels of the type are made. */
  @Test
  void aDataTypeOnGpus() throws Exception {
    Path cuda = cuda();
    String types = Files.readString(CUDA.resolve("types.h"));
    String last = "  TYPE(f8e5m2, __nv_fp8_e5m2, float, QUADS, \"e5m2x4\")";
    String row = "  TYPE(star16, __nv_bfloat16, float, PAIRS, \"bf16x2\")";
    Files.writeString(cuda.resolve("types.h"), replaced(types, last, last + " \\\n" + row));
    String[] dry = {"make", "-n", "-C", cuda.toString(), "NVCC=false", "OUT=" + folder, "all"};
    String commands = output(dry);
    for (String file : List.of("", "direct-", "nvls_", "nvls-tree_")) {
      assertTrue(commands.contains("/" + file + "star16.fatbin"), file + "star16");
    }
  }

  /** Two files: the declaration, and the code that reads it. */
  @Test
  void aSetting() throws Exception {
    String settings = Files.readString(SETTINGS.resolve("Settings.java"));
    String declared =
        """
          public static final Setting<Long> NCCL4J_STAR =
              Setting.bytes("NCCL4J_STAR", 7, "A setting of a test.");

          public static final Setting<Long> NCCL_WIN_STRIDE =\
        """;
    settings =
        replaced(settings, "  public static final Setting<Long> NCCL_WIN_STRIDE =", declared);
    settings = replaced(settings, "          NCCL_WIN_STRIDE,", "  NCCL4J_STAR, NCCL_WIN_STRIDE,");
    java("Settings.java", settings);
    java(
        "StarReader.java",
        """
        import java.util.Map;
        import org.nccl4j.api.settings.Settings;

        public class StarReader {
          public static void main(String[] arguments) {
            System.out.println(Settings.ofProcess(Map.of()).get(Settings.NCCL4J_STAR));
          }
        }
        """);
    assertEquals(2, java.size());
    ClassPathProcess process = compiled();
    assertEquals("7", process.run(Map.of(), "StarReader").strip());
    assertEquals("4096", process.run(Map.of("NCCL4J_STAR", "4K"), "StarReader").strip());
    String doctor = process.run(Map.of("NCCL4J_STAR", "4K"), "org.nccl4j.it.cli.Main", "doctor");
    assertTrue(doctor.contains("NCCL4J_STAR"), doctor);
  }
}
