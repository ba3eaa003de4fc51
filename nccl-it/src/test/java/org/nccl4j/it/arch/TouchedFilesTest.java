package org.nccl4j.it.arch;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.UnaryOperator;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/**
 * The files of the main code that name one algorithm, one data type, one setting and one transport.
 * A new one touches files like these. A file may leave a list here, and none may join it without a
 * reason: the facts of an algorithm or a type belong in its row of the table.
 */
class TouchedFilesTest {
  private static final Path ROOT = Path.of("..");

  /** Comments of Java, CUDA C++ and make. */
  private static final Pattern COMMENT =
      Pattern.compile("/\\*.*?\\*/|//[^\n]*|(?m)^#(?! *(include|define|if))[^\n]*", Pattern.DOTALL);

  private static final Pattern STRING = Pattern.compile("\"(\\\\.|[^\"\\\\\n])*\"");

  /** The files whose code names something; strings count as code. */
  private static Set<String> naming(String pattern) {
    return naming(pattern, UnaryOperator.identity());
  }

  private static Set<String> naming(String pattern, UnaryOperator<String> keep) {
    Pattern named = Pattern.compile(pattern);
    Set<String> files = new TreeSet<>();
    int looked = 0;
    for (Path file : sources()) {
      looked++;
      if (named.matcher(keep.apply(code(file))).find()) {
        files.add(file.getFileName().toString());
      }
    }
    assertEquals(true, looked > 500, looked + " files of " + ROOT.toAbsolutePath().normalize());
    return files;
  }

  private static String withoutStrings(String code) {
    return STRING.matcher(code).replaceAll("\"\"");
  }

  private static String code(Path file) {
    try {
      return COMMENT.matcher(Files.readString(file)).replaceAll("");
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static List<Path> sources() {
    try (Stream<Path> modules = Files.list(ROOT)) {
      return modules
          .map(module -> module.resolve("src/main"))
          .filter(Files::isDirectory)
          .flatMap(TouchedFilesTest::sources)
          .toList();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static Stream<Path> sources(Path main) {
    try (Stream<Path> all = Files.walk(main)) {
      return all
          .filter(file -> file.toString().matches(".*(\\.java|\\.cuh|\\.cu|\\.h|Makefile)"))
          .toList()
          .stream();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /**
   * An algorithm over connections has a row in the table, a class of kernels on the host, and a
   * header on GPUs. The header has a row too, since nvcc reads no Java, from which numbers, entry
   * points and dispatch are made.
   */
  @Test
  void anAlgorithm() {
    assertEquals(
        Set.of("Algorithm.java", "TwoShotKernels.java", "two_shot.cuh"),
        naming(
            "(?<!DIRECT_|Arguments\\.|int )\\bTWO_SHOT\\b|\\bTwoShot(Kernels)?\\b"
                + "|\\btwoShot\\(|two_shot\\b"));
  }

  /**
   * A data type has a row in the table, its numbers on the host, and a row of the GPU's table, from
   * which its kernels and the switch's instructions are made. Users' functors are compiled with a
   * header that can include no other, which has the type too.
   */
  @Test
  void aDataType() {
    assertEquals(
        Set.of("Bfloat16.java", "DataType.java", "nccl4j_reduction.cuh", "types.h"),
        naming("(?i)\\bb(f16|float16)|_bfloat16\\b"));
  }

  /** A setting is declared in one file, and read in another. */
  @Test
  void aSetting() {
    assertEquals(
        Set.of("Engine.java", "Settings.java"),
        naming("\\bNCCL_WIN_STRIDE\\b", TouchedFilesTest::withoutStrings));
  }

  /**
   * A setting that all ranks must agree on, and that a program may give for a communicator or a
   * call. {@code Validation} is perf's, which has nccl-tests' option for this one, and {@code
   * ConfigField} the C interface's, whose structure has a field for it.
   */
  @Test
  void aSettingWithMethodsForPrograms() {
    assertEquals(
        Set.of(
            "CallOptions.java",
            "CommunicatorConfig.java",
            "ConfigField.java",
            "Engine.java",
            "PlanSettings.java",
            "TuningSettings.java",
            "Validation.java"),
        naming("\\bNCCL_CTA_POLICY\\b", TouchedFilesTest::withoutStrings));
  }

  /** No file of the engine and of another transport names a transport. */
  @Test
  void aTransport() {
    assertEquals(
        Set.of("ShmProvider.java", "module-info.java"), naming("return \"SHM\"|\\bShmProvider\\b"));
  }

  /**
   * The transport of the tests is another project's: these are all files that it adds, with a
   * setting of its own, which one of them declares and reads, and another names in an error. {@code
   * SampleTransportTest} compiles and uses it.
   */
  @Test
  void anotherProjectsTransportWithItsSetting() throws IOException {
    Path sample = Path.of("src", "test", "sample-transport");
    Set<String> files = new TreeSet<>();
    Set<String> settings = new TreeSet<>();
    try (Stream<Path> all = Files.walk(sample)) {
      all.filter(Files::isRegularFile)
          .forEach(
              file -> {
                files.add(file.getFileName().toString());
                if (code(file).contains("NCCL4J_FILE_TRANSPORT_DIR")) {
                  settings.add(file.getFileName().toString());
                }
              });
    }
    assertEquals(
        Set.of(
            "FileConnector.java",
            "FileProvider.java",
            "FileTransport.java",
            "RegionFile.java",
            "module-info.java"),
        files);
    assertEquals(Set.of("FileTransport.java", "RegionFile.java"), settings);
    assertEquals(Set.of(), naming("NCCL4J_FILE_TRANSPORT_DIR|filetransport"));
  }

  /** One file has the operations, one the algorithms and one the protocols of all modules. */
  @Test
  void oneTableForAllModules() {
    assertEquals(
        Set.of("Algorithm.java", "Operation.java", "Protocol.java"),
        naming("\\benum (Operation|Collective|Algorithm|Protocol)\\b"));
  }
}
