package org.nccl4j.it.abi;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.io.InputStream;
import java.lang.invoke.MethodType;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.SortedSet;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.DataType;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.operation.Operation;

/**
 * The C side and the Java side agree on names, numbers and bits, and with NCCL on what is exported.
 */
class AbiTest {
  private static final Path SOURCES = Path.of("src", "main", "c");

  @TempDir private Path folder;

  /** The functions of NCCL 2.28.9 and 2.30.7, and their twins for profilers. */
  @Test
  void exactlyTheFunctionsOfNcclAreExported() throws Exception {
    BuiltLibrary library = BuiltLibrary.in(folder);
    BuiltLibrary.Ran symbols =
        library.run(Map.of(), List.of("nm", "-D", "--defined-only", library.library() + ""));
    SortedSet<String> found =
        symbols
            .output()
            .lines()
            .map(line -> line.replaceFirst(".* ", ""))
            .collect(Collectors.toCollection(TreeSet::new));
    SortedSet<String> wanted = new TreeSet<>();
    for (String name : functions()) {
      wanted.add(name);
      wanted.add("p" + name);
    }
    assertEquals(wanted, found);
    assertEquals(found, ExportedNames.of(library.library()));
    BuiltLibrary.Ran dynamic =
        library.run(Map.of(), List.of("readelf", "-d", library.library() + ""));
    assertTrue(dynamic.output().contains("soname: [libnccl.so.2]"), dynamic.output());
  }

  /**
   * Their calls are checked on one GPU (`./abi-tests functions`), and on the host in each build.
   */
  @Test
  void programsCallEachFunction() throws IOException {
    Path programs = Path.of("src", "test", "c", "abi");
    String onGpus = Files.readString(programs.resolve("every.c"));
    String onHost =
        Files.readString(programs.resolve("host.c"))
            + Files.readString(programs.resolve("teams.c"))
            + Files.readString(programs.resolve("wrong.c"));
    for (String program : List.of(onGpus, onHost)) {
      List<String> called =
          functions().stream()
              .filter(name -> Pattern.compile("\\b" + name + "\\(").matcher(program).find())
              .toList();
      Set<String> uncalled = new TreeSet<>(functions());
      uncalled.removeAll(called);
      uncalled.remove("ncclGetLastError"); // by CHECK, in checks.h
      assertEquals(Set.of(), uncalled);
    }
  }

  /** As `./abi-tests exports` compares them. */
  @Test
  void namesThatAreMissingAreTold() throws Exception {
    BuiltLibrary library = BuiltLibrary.in(folder);
    Path smaller = folder.resolve("smaller.so");
    Path source = folder.resolve("smaller.c");
    Files.writeString(source, "void ncclSend(void) {} void pncclSend(void) {} void other(void) {}");
    List<String> compile =
        List.of("gcc", "-shared", "-fPIC", "-o", smaller.toString(), source.toString());
    assertEquals(new BuiltLibrary.Ran(0, ""), library.run(Map.of(), compile));
    String ours = library.library().toString();
    assertEquals(
        new BuiltLibrary.Ran(0, "2 of 2 names of %s%n".formatted(smaller)),
        compare(library, ours, smaller.toString()));
    BuiltLibrary.Ran lacks = compare(library, smaller.toString(), ours);
    assertEquals(1, lacks.status());
    assertTrue(lacks.output().contains("missing: ncclRecv"), lacks.output());
    assertEquals(2 * functions().size() - 2, lacks.output().lines().count() - 1);
  }

  /** All of them are functions of a program that calls NCCL, on a machine that has it. */
  @Test
  void ncclExportsNoOthers() throws Exception {
    Path theirs = nccl();
    assumeTrue(theirs != null, "neither NCCL4J_REAL_NCCL nor python3 knows a libnccl.so.2");
    BuiltLibrary library = BuiltLibrary.in(folder);
    BuiltLibrary.Ran ran = compare(library, library.library() + "", theirs + "");
    assertEquals(0, ran.status(), ran.output());
  }

  private static BuiltLibrary.Ran compare(BuiltLibrary library, String ours, String theirs)
      throws Exception {
    return library.run(
        Map.of(),
        List.of(
            Path.of(System.getProperty("java.home"), "bin", "java").toString(),
            "-cp",
            Path.of("target", "test-classes").toAbsolutePath() + ":" + BuiltLibrary.classPath(),
            ExportedNames.class.getName(),
            ours,
            theirs));
  }

  /** NCCL's own library; null where there is none. */
  private static Path nccl() throws Exception {
    String chosen = new ProcessBuilder().environment().get("NCCL4J_REAL_NCCL");
    if (chosen != null) {
      return Path.of(chosen);
    }
    String find = "import nvidia.nccl; print(list(nvidia.nccl.__path__)[0])";
    try {
      Process python =
          new ProcessBuilder("python3", "-c", find)
              .redirectError(ProcessBuilder.Redirect.DISCARD)
              .start();
      String found = new String(python.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      Path library = Path.of(found.strip(), "lib", "libnccl.so.2");
      return python.waitFor() == 0 && Files.exists(library) ? library : null;
    } catch (IOException e) {
      return null;
    }
  }

  private static List<String> functions() throws IOException {
    try (InputStream in = AbiTest.class.getResourceAsStream("exports.txt")) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8).lines().toList();
    }
  }

  @Test
  void operationsHaveTheSameNumbers() throws IOException {
    assertEquals(
        Stream.of(Operation.values()).limit(11).map(Enum::name).toList(),
        constants("bridge.h", "operation"));
  }

  @Test
  void fieldsOfConfigurationsHaveTheSameNumbers() throws IOException {
    List<String> fields =
        Stream.concat(Stream.of(ConfigField.values()).map(Enum::name), Stream.of("CONFIG_FIELDS"))
            .toList();
    assertEquals(fields, constants("bridge.h", "config_field"));
  }

  @Test
  void typesAndOperatorsHaveNcclsNumbers() throws IOException {
    String header = Files.readString(SOURCES.resolve("nccl.h"));
    String types =
        header.substring(header.indexOf("  ncclInt8,"), header.indexOf("  ncclNumTypes"));
    assertEquals(
        Stream.of(DataType.values()).map(type -> plain(type.name())).toList(),
        Stream.of(types.split(",")).filter(each -> !each.isBlank()).map(AbiTest::word).toList());
    String operators = header.substring(header.indexOf("ncclSum,"), header.indexOf(", ncclNumOps"));
    assertEquals(
        Stream.of(RedOp.values()).map(op -> plain(op.name())).toList(),
        Stream.of(operators.split(",")).map(AbiTest::word).toList());
  }

  private static String plain(String name) {
    return name.toLowerCase(Locale.ROOT).replace("_", "");
  }

  private static String word(String constant) {
    return constant.strip().replaceFirst("^nccl", "").toLowerCase(Locale.ROOT);
  }

  @Test
  void theWordOfACallHasTheSameBits() throws IOException {
    String header = Files.readString(SOURCES.resolve("bridge.h"));
    Matcher shifts =
        Pattern.compile("OPERATION_SHIFT = (\\d+), TYPE_SHIFT = (\\d+), OP_SHIFT = (\\d+)")
            .matcher(header);
    assertTrue(shifts.find());
    long shape = CallShape.of(9, 11, 4, -2);
    assertEquals(
        shape,
        9L << Integer.parseInt(shifts.group(1))
            | 11L << Integer.parseInt(shifts.group(2))
            | 4L << Integer.parseInt(shifts.group(3))
            | 0xfffffffeL);
  }

  /** GetStaticMethodID refuses a wrong signature when the library is used; so does this test. */
  @Test
  void eachMethodOfTheEntranceIsThere() throws IOException {
    Matcher methods =
        Pattern.compile("M\\((\\w+), \"(\\(.*\\).+?)\"\\)")
            .matcher(Files.readString(SOURCES.resolve("bridge.h")));
    SortedSet<String> wanted = new TreeSet<>();
    while (methods.find()) {
      wanted.add(methods.group(1) + methods.group(2));
    }
    SortedSet<String> found =
        Stream.of(Entry.class.getDeclaredMethods())
            .filter(method -> !method.isSynthetic() && !Modifier.isPrivate(method.getModifiers()))
            .map(
                method ->
                    method.getName()
                        + MethodType.methodType(method.getReturnType(), method.getParameterTypes())
                            .toMethodDescriptorString())
            .collect(Collectors.toCollection(TreeSet::new));
    assertEquals(found, wanted);
  }

  /** The JVM ignores thresholds of a class that does not exist. */
  @Test
  void eachClassWithThresholdsOfItsOwnIsThere() throws Exception {
    Matcher classes =
        Pattern.compile("OFTEN\\(\"([\\w.]+)\"\\)")
            .matcher(Files.readString(SOURCES.resolve("jvm.c")));
    int found = 0;
    for (; classes.find(); found++) {
      Class.forName(
          "org.nccl4j." + classes.group(1),
          /* initialize= */ false,
          AbiTest.class.getClassLoader());
    }
    assertTrue(found > 0);
  }

  @Test
  void eachErrorHasACodeOfNccl228() {
    assertEquals(6, Results.of(new TimeoutException(ErrorId.OPERATION, "a", "b")));
    assertEquals(4, Results.of(Wrong.argument("a", "b")));
    assertEquals(5, Results.of(Wrong.usage("a", "b")));
    assertEquals(3, Results.of(new IllegalStateException("a defect")));
    assertTrue(Results.last().contains("a defect"));
  }

  @Test
  void numbersOfOperatorsBeginAgain() {
    assertEquals(7, Operators.after(6));
    assertEquals(RedOp.values().length, Operators.after(Integer.MAX_VALUE));
  }

  private static List<String> constants(String file, String name) throws IOException {
    String header = Files.readString(SOURCES.resolve(file));
    Matcher all = Pattern.compile("enum " + name + " \\{([^}]*)\\};").matcher(header);
    assertTrue(all.find(), name);
    return Stream.of(all.group(1).split(",")).map(String::strip).toList();
  }
}
